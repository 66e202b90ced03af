package tree

import "testing"

func TestIDText(t *testing.T) {
	t.Parallel()
	const text = "01890a5d-ac96-774b-bcce-b302099a8057"
	id, err := ParseID[Task](text)
	if err != nil || id.String() != text || id.IsZero() {
		t.Fatalf("%s: %s, %v", text, id, err)
	}
	marshalled, err := id.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back TaskID
	if err := back.UnmarshalText(marshalled); err != nil || back != id {
		t.Errorf("%s came back as %s: %v", id, back, err)
	}
	for _, bad := range []string{
		"", "7", "{01890a5d-ac96-774b-bcce-b302099a8057}", "01890a5dac96774bbcceb302099a8057",
		"01890a5d-ac96-774b-bcce-b302099a805x", "urn:uuid:01890a5d-ac96-774b-bcce-b302099a8057",
	} {
		if got, err := ParseID[Task](bad); err == nil || !got.IsZero() {
			t.Errorf("%q was read as %s", bad, got)
		}
	}
}
