package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coppice-run/coppice/internal/skill"
)

func aSkill(name, about, body string) string {
	return "---\nname: " + name + "\ndescription: " + about + "\n---\n" + body
}

func TestSkill(t *testing.T) {
	t.Parallel()
	w := setup(t,
		".coppice/skills/release/SKILL.md", aSkill("release", "to make a release", "Tag, then push."),
		".coppice/skills/release/scripts/tag.sh", "git tag\n",
		".claude/skills/other/SKILL.md", aSkill("release", "another one of the name", "Never."),
		".claude/skills/review/SKILL.md", aSkill("review", "to review", "Look."),
		".claude/skills/broken/SKILL.md", "no front matter",
		"operator/skills/late/SKILL.md", aSkill("late", "from elsewhere", "Here."),
	)
	places := append(w.SkillPlaces(), skill.In(w.Dir()+"/operator/skills", "p:"), skill.In(w.Dir()+"/nowhere", ""))
	all, ok := NewSkill(t.Context(), places, nil)
	if !ok {
		t.Fatal("there are no skills")
	}
	want := "- `release`: to make a release\n- `review`: to review\n- `p:late`: from elsewhere\n"
	if about := all.Spec().Description; !strings.HasSuffix(about, want) {
		t.Errorf("the description is %s", about)
	}
	answers(t, all, map[string]string{
		`{"name":"release"}`:                         "Skill release\n\nTag, then push.\n\nFiles of the skill, to be loaded with file:\n- scripts/tag.sh",
		`{"name":"review"}`:                          "Skill review\n\nLook.",
		`{"name":"p:late"}`:                          "Skill p:late\n\nHere.",
		`{"name":"release","file":"scripts/tag.sh"}`: "git tag\n",
		`{"name":"release","file":"../../../.claude/skills/review/SKILL.md"}`: "(error) \"../../../.claude/skills/review/SKILL.md\" leads out of the skill's folder",
		`{"name":"release","file":"/etc/passwd"}`:                             "(error) \"/etc/passwd\" leads out of the skill's folder",
		`{"name":"release","file":"nothing"}`:                                 "(error) nothing: no such file",
		`{"name":"deploy"}`:                                                   `(error) there is no skill "deploy"; there are: release, review, p:late; .claude/skills/broken can't be used: SKILL.md: line 1: expected "---"`,
		`{}`:                                                                  "(error) wrong input: name: missing",
	})
	some, _ := NewSkill(t.Context(), places, []string{"review"})
	answers(t, some, map[string]string{
		`{"name":"release"}`: `(error) there is no skill "release"; there are: review;`,
	})
	if _, ok := NewSkill(t.Context(), places, []string{"nobody"}); ok {
		t.Error("there are no skills that are allowed, and yet a tool")
	}
	if _, ok := NewSkill(t.Context(), (*Workspace)(nil).SkillPlaces(), nil); ok {
		t.Error("there is no workspace, and yet a skill")
	}
}

func TestManySkillsAreNamedOnly(t *testing.T) {
	t.Parallel()
	var files []string
	for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
		files = append(files, ".coppice/skills/"+name+"/SKILL.md", aSkill(name, strings.Repeat("long ", 300), "x"))
	}
	w := setup(t, files...)
	all, _ := NewSkill(t.Context(), w.SkillPlaces(), nil)
	about := all.Spec().Description
	if len(about) > maxSkillProse+1000 || !strings.Contains(about, "- `a`: long") || !strings.Contains(about, "y, z") {
		t.Errorf("%d bytes: %s", len(about), about)
	}
}

func TestSkillOfManyFiles(t *testing.T) {
	t.Parallel()
	files := []string{".coppice/skills/big/SKILL.md", aSkill("big", "to be big", "Big.")}
	for i := range 201 {
		files = append(files, fmt.Sprintf(".coppice/skills/big/%03d", i), "x")
	}
	all, _ := NewSkill(t.Context(), setup(t, files...).SkillPlaces(), nil)
	got := all.Call(t.Context(), Call{Input: json.RawMessage(`{"name":"big"}`)}).(Done)
	if !strings.HasSuffix(got.Text, "- 199\n\n[cut: the list of files is not complete]") {
		t.Error(got.Text)
	}
}
