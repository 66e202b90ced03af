// Package flags builds a command line from structs. Each field is a flag, an argument or a
// command, as its tags say:
//
//	help         the description; a field without it, and without cmd, is ignored
//	name, short  the names; the default is the field's name in lower case with dashes
//	env          the variable that sets it if the command line does not; an empty variable is
//	             ignored unless the value is a text that may be empty, or a list with commas
//	default      the default value; without it, the value of the field
//	placeholder  the name of its value in help
//	enum         the allowed values, separated by commas
//	sep:"none"   of a list: each value is given separately, and may contain commas
//	required     it must be set
//	xor          at most one flag with the same word may be set; if one is set on the command
//	             line, the variables of the others are ignored; empty variables are ignored
//	arg          it is an argument, required unless it is optional; a list takes all remaining
//	             ones
//	cmd          it is a command; with default:"withargs" it is also the default of its parent
//	group        of a command: its heading in help
//	embed        the fields of its struct belong to this one, like those of embedded structs
//
// A pointer is nil if the flag is not set, which differs from an empty text.
//
// Cobra does the parsing. Nothing here looks up a method by name at run time: a single place
// that does so makes the linker keep all methods of all types.
package flags

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// grammar is the command line of one command.
type grammar struct {
	flags *pflag.FlagSet
	envs  string // prefix of the variables of flags without env; empty: they have none
	args  []argument
}

// argument is an argument of a command, or all remaining ones.
type argument struct {
	name     string
	help     string
	optional bool
	one      func(text string)
	rest     *[]string
}

// read adds all fields of a struct to the command. It calls command for those that are
// commands.
func (g *grammar) read(of reflect.Value, command func(reflect.StructField, reflect.Value) error) error {
	for i := range of.NumField() {
		field := of.Type().Field(i)
		tag := field.Tag
		_, isCommand := tag.Lookup("cmd")
		_, isArgument := tag.Lookup("arg")
		_, isEmbedded := tag.Lookup("embed")
		var err error
		switch {
		case isCommand:
			err = command(field, of.Field(i))
		case isArgument:
			err = g.argument(field, of.Field(i))
		case tag.Get("help") != "":
			err = g.flag(field, of.Field(i))
		case field.Anonymous || isEmbedded:
			err = g.read(of.Field(i), command)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *grammar) argument(field reflect.StructField, value reflect.Value) error {
	a := argument{name: nameOf(field), help: field.Tag.Get("help")}
	_, a.optional = field.Tag.Lookup("optional")
	switch into := value.Addr().Interface().(type) {
	case *string:
		a.one = func(text string) { *into = text }
	case **string:
		a.one = func(text string) { *into = &text }
	case *[]string:
		a.rest = into
	default:
		return fmt.Errorf("%s: an argument is a text or a list of them, not %s", field.Name, field.Type)
	}
	g.args = append(g.args, a)
	return nil
}

func (g *grammar) flag(field reflect.StructField, value reflect.Value) error {
	tag, name := field.Tag, nameOf(field)
	usage := tag.Get("help")
	env, said := tag.Lookup("env")
	if !said && g.envs != "" {
		env = g.envs + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
	}
	if env != "" {
		usage += " ($" + env + ")"
	}
	add := func(to *pflag.FlagSet) error {
		return define(to, value, name, tag.Get("short"), usage, tag.Get("sep") == "none")
	}
	text, hasDefault := tag.Lookup("default")
	if hasDefault { // set in a separate flag set, so that values from the command line replace a list and do not extend it
		aside := pflag.NewFlagSet(name, pflag.ContinueOnError)
		if err := errors.Join(add(aside), aside.Set(name, text)); err != nil {
			return fmt.Errorf("%s: the default: %w", field.Name, err)
		}
	}
	if err := add(g.flags); err != nil {
		return fmt.Errorf("%s: %w", field.Name, err)
	}
	flag := g.flags.Lookup(name)
	switch {
	case value.IsZero():
		flag.DefValue = ""
	case hasDefault:
		flag.DefValue = text
	}
	v := &flagValue{Value: flag.Value, placeholder: tag.Get("placeholder"), env: env, xor: tag.Get("xor")}
	_, v.required = tag.Lookup("required")
	if values, any := tag.Lookup("enum"); any {
		v.allowed = strings.Split(values, ",")
	}
	flag.Value = v
	return nil
}

// define creates a flag for a field.
func define(flags *pflag.FlagSet, value reflect.Value, name, short, usage string, whole bool) error {
	switch into := value.Addr().Interface().(type) {
	case *string:
		flags.StringVarP(into, name, short, *into, usage)
	case *bool:
		flags.BoolVarP(into, name, short, *into, usage)
	case *int:
		flags.IntVarP(into, name, short, *into, usage)
	case *int32:
		flags.Int32VarP(into, name, short, *into, usage)
	case *int64:
		flags.Int64VarP(into, name, short, *into, usage)
	case *uint64:
		flags.Uint64VarP(into, name, short, *into, usage)
	case *float64:
		flags.Float64VarP(into, name, short, *into, usage)
	case *time.Duration:
		flags.DurationVarP(into, name, short, *into, usage)
	case **string:
		text := func(text string) (string, error) { return text, nil }
		flags.VarP(pointerValue[string]{into, text, "string"}, name, short, usage)
	case **time.Duration:
		flags.VarP(pointerValue[time.Duration]{into, time.ParseDuration, "duration"}, name, short, usage)
	case **int:
		flags.VarP(pointerValue[int]{into, strconv.Atoi, "int"}, name, short, usage)
	case **float64:
		number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
		flags.VarP(pointerValue[float64]{into, number, "float64"}, name, short, usage)
	case *map[string]string:
		flags.VarP(pairsValue{into}, name, short, usage)
	case *[]string:
		if whole {
			flags.StringArrayVarP(into, name, short, *into, usage)
		} else {
			flags.StringSliceVarP(into, name, short, *into, usage)
		}
	default:
		return fmt.Errorf("no flag can be a %s", value.Type())
	}
	return nil
}

// pointerValue is a value that may be unset.
type pointerValue[T any] struct {
	into  **T
	parse func(string) (T, error)
	kind  string
}

func (o pointerValue[T]) Set(text string) error {
	v, err := o.parse(text)
	*o.into = &v
	return err
}

func (o pointerValue[T]) String() string {
	if o.into == nil || *o.into == nil {
		return ""
	}
	return fmt.Sprint(**o.into)
}

func (o pointerValue[T]) Type() string { return o.kind }

// pairsValue is a mapping. Each text is one pair, so its value may contain commas and quotation
// marks.
type pairsValue struct{ into *map[string]string }

func (p pairsValue) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found {
		return fmt.Errorf("%s must be formatted as key=value", text)
	}
	if *p.into == nil {
		*p.into = map[string]string{}
	}
	(*p.into)[key] = value
	return nil
}

func (p pairsValue) String() string { return "" }

func (p pairsValue) Type() string { return "key=value" }

// flagValue is a flag's value with its tags.
type flagValue struct {
	pflag.Value
	placeholder string
	allowed     []string // nil: any value
	env, xor    string
	required    bool
	fromEnv     bool     // set from the variable
	texts       []string // the texts that it was set to, in order
}

// source returns what sets the flag of this name: the variable, or the flag itself.
func (v *flagValue) source(name string) string {
	if v.fromEnv {
		return "$" + v.env
	}
	return "--" + name
}

func (v *flagValue) Type() string {
	if v.placeholder != "" {
		return v.placeholder
	}
	return v.Value.Type()
}

// isText reports whether an empty text is a valid value.
func (v *flagValue) isText() bool {
	if v.allowed != nil {
		return slices.Contains(v.allowed, "")
	}
	switch v.Value.Type() {
	case "string", "stringSlice":
		return true
	}
	return false
}

func (v *flagValue) Set(text string) error {
	if v.allowed != nil && !slices.Contains(v.allowed, text) {
		return fmt.Errorf("it has to be one of %s", strings.Join(slices.DeleteFunc(slices.Clone(v.allowed), isEmpty), ", "))
	}
	v.texts = append(v.texts, text)
	if v.Value.Type() == "stringSlice" {
		text = joinLines(text)
	}
	err := v.Value.Set(text)
	v.trimList()
	var number *strconv.NumError // its text would name a function of Go
	if !errors.As(err, &number) {
		return err
	}
	switch kind := v.Value.Type(); {
	case errors.Is(err, strconv.ErrRange):
		return errors.New("the number is out of range")
	case kind == "bool":
		return errors.New("expected true or false")
	case strings.HasPrefix(kind, "float"):
		return errors.New("expected a number")
	}
	return errors.New("expected a whole number")
}

// joinLines makes a list with several lines, such as that of a variable in a YAML file, one line:
// otherwise only the first would count.
func joinLines(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, ", \t\r\n"); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) < 2 {
		return strings.TrimRight(text, "\r\n")
	}
	return strings.Join(lines, ",")
}

// trimList removes the spaces around the values of a list whose values are separated by commas, and
// empty values: a path that is empty would be the current directory.
func (v *flagValue) trimList() {
	list, ok := v.Value.(pflag.SliceValue)
	if !ok || v.Value.Type() != "stringSlice" {
		return
	}
	values := list.GetSlice()
	for i, value := range values {
		values[i] = strings.TrimSpace(value)
	}
	_ = list.Replace(slices.DeleteFunc(values, isEmpty)) // of a list of texts it can't fail
}

func isEmpty(text string) bool { return text == "" }

// nameOf returns the name of a flag, argument or command.
func nameOf(field reflect.StructField) string {
	if name := field.Tag.Get("name"); name != "" {
		return name
	}
	var name strings.Builder
	letters := []rune(field.Name)
	for i, r := range letters {
		begins := i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1]))
		if begins {
			name.WriteByte('-')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}
