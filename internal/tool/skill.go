package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/coppice-run/coppice/internal/excerpt"
	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/skill"
)

//go:embed skill.md
var skillProse string

var skillSchema = json.RawMessage(`{
  "type": "object",
  "properties": {
    "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The name of the skill."},
    "file": {"type": "string", "maxLength": 4096, "description": "A file of the skill's, as the list of its files names it."}
  },
  "required": ["name"],
  "additionalProperties": false
}`)

// SkillTool is the name of the tool that [NewSkill] returns.
const SkillTool = "skill"

// maxSkill bounds the name of a skill in a call, in characters.
const maxSkill = 200

// maxSkillProse bounds the description of all skills, which is sent with every model call, in
// bytes.
const maxSkillProse = 16 << 10

type skillTool struct {
	spec   model.ToolSpec
	skills []skill.Skill
	broken []skill.Broken
}

// SkillPlaces returns the skill directories of a workspace: .coppice/skills and .claude/skills.
// The first takes precedence.
func (w *Workspace) SkillPlaces() []skill.Place {
	if w == nil {
		return nil
	}
	var places []skill.Place
	for _, dir := range []string{".coppice/skills", ".claude/skills"} {
		places = append(places, skill.Place{
			Name: dir, Open: func() (*os.Root, error) { return w.root.OpenRoot(dir) },
		})
	}
	return places
}

// NewSkill returns the tool that loads skills, for a run that may load the allowed skills, or all
// if allowed is empty. ok is false if there are none; then the run should not get the tool. When
// ctx ends, it may miss skills.
func NewSkill(ctx context.Context, places []skill.Place, allowed []string) (_ Tool, ok bool) {
	t := skillTool{}
	var found []skill.Skill
	found, t.broken = skill.Find(ctx, places)
	if len(found) == 0 {
		t.spec = model.ToolSpec{Name: SkillTool, Description: skillProse, Schema: skillSchema}
		return t, false
	}
	prose := strings.Builder{}
	prose.WriteString(skillProse)
	var untold []string
	for _, s := range found {
		if len(allowed) > 0 && !slices.Contains(allowed, s.Name) {
			continue
		}
		t.skills = append(t.skills, s)
		line := fmt.Sprintf("- `%s`: %s\n", s.Name, excerpt.Valid(s.Description))
		if prose.Len()+len(line) > maxSkillProse {
			untold = append(untold, s.Name)
			continue
		}
		prose.WriteString(line)
	}
	if len(untold) > 0 {
		fmt.Fprintf(&prose, "- and, without a description here: %s\n", strings.Join(untold, ", "))
	}
	t.spec = model.ToolSpec{Name: SkillTool, Description: prose.String(), Schema: skillSchema}
	return t, len(t.skills) > 0
}

func (t skillTool) Spec() model.ToolSpec { return t.spec }

func (skillTool) Effect() Effect { return EffectNone }

// Check: see [Checked].
func (skillTool) Check(call Call) error {
	_, _, err := parseSkill(call.Input)
	return err
}

func (t skillTool) Call(ctx context.Context, call Call) Outcome {
	name, file, err := parseSkill(call.Input)
	if err != nil {
		return failed(err)
	}
	i := slices.IndexFunc(t.skills, func(s skill.Skill) bool { return s.Name == name })
	switch {
	case i < 0:
		return failed(t.unknown(name))
	case file != "":
		text, err := t.skills[i].File(file)
		if text == "" && err == nil {
			text = "The file is empty"
		}
		return result(text, err)
	}
	return result(loadSkill(ctx, &t.skills[i]))
}

func parseSkill(raw json.RawMessage) (name, file string, err error) {
	in := newInput(raw)
	name, file = in.required("name", maxSkill), in.optional("file", "", maxPath)
	return name, file, in.err()
}

// loadSkill returns the instructions of a skill and the list of its files.
func loadSkill(ctx context.Context, s *skill.Skill) (string, error) {
	c, err := s.Load(ctx)
	if err != nil {
		return "", fmt.Errorf("skill %s: %w", s.Name, err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Skill %s\n\n%s\n", s.Name, c.Body)
	if len(c.Files) > 0 {
		out.WriteString("\nFiles of the skill, to be loaded with file:\n")
	}
	for _, f := range c.Files {
		fmt.Fprintf(&out, "- %s\n", displayPath(f))
	}
	if c.Cut {
		out.WriteString("\n[cut: the list of files is not complete]\n")
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

// unknown is the error for a skill that does not exist; it lists the others.
func (t skillTool) unknown(name string) error {
	var names []string
	for _, s := range t.skills {
		names = append(names, s.Name)
	}
	text := fmt.Sprintf("there is no skill %q; there are: %s", name, orNone(names))
	for _, b := range t.broken {
		text += fmt.Sprintf("; %s can't be used: %v", displayPath(b.Folder), b.Err)
	}
	return errors.New(text)
}
