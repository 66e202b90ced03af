// Package flags makes what a person types of structs: each field is a flag, an argument
// or a command, as its tags say.
//
//	help         what it is for; a field without it, and without cmd, is none
//	name, short  what it is called; by default like the field, in lower case with dashes
//	env          the variable of the environment that says it where the command line does not;
//	             an empty one says nothing of what is no text, nor a list of texts, nor of what
//	             may not be empty
//	default      what it is otherwise; without it, what the field holds
//	placeholder  what stands for its value in help
//	enum         the values that it may have, with commas between them
//	sep:"none"   of a list: each value is given by itself, commas are part of it
//	required     it has to be said
//	xor          at most one of those with the same word may be said; if the command line says
//	             one, the environment says none of the others; an empty variable says nothing
//	arg          it is an argument, which has to be there unless it is optional; a list takes all that are left
//	cmd          it is a command; with default:"withargs" it is also what the command above it does
//	group        of a command: the heading that help shows it below
//	embed        the fields of the struct that it is count as those of this one, as those
//	             of embedded structs do
//
// A pointer is nil where nothing was said, which is not the same as an empty text.
//
// Parsing is cobra's. Nothing here looks a method up by its name at run time: one place
// that does makes the linker keep all methods of all types.
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

// grammar is what the fields of a struct come to for a command.
type grammar struct {
	flags *pflag.FlagSet
	envs  string // what variables of flags without env begin with; empty: they have none
	args  []argument
}

// argument is one of a command's arguments, or all that are left.
type argument struct {
	name     string
	help     string
	optional bool
	one      func(text string)
	rest     *[]string
}

// read puts all fields of a struct on the command but the commands, which it hands on.
func (g *grammar) read(of reflect.Value, command func(reflect.StructField, reflect.Value) error) error {
	for i := range of.NumField() {
		field, tag := of.Type().Field(i), of.Type().Field(i).Tag
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
	if hasDefault { // said to another set, so that a list is still replaced by what is said to this one
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

// define makes a flag of a field.
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
		flags.StringToStringVarP(into, name, short, *into, usage)
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

// pointerValue is a value that may not be said at all.
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

// flagValue is a flag's value, with what its tags say.
type flagValue struct {
	pflag.Value
	placeholder string
	allowed     []string // nil: everything
	env, xor    string
	required    bool
	fromEnv     bool     // that variable says it
	texts       []string // the texts that it was set to, one after another
}

func (v *flagValue) Type() string {
	if v.placeholder != "" {
		return v.placeholder
	}
	return v.Value.Type()
}

// isText reports whether an empty text is a value as good as any other.
func (v *flagValue) isText() bool {
	if v.allowed != nil {
		return slices.Contains(v.allowed, "")
	}
	switch v.Value.Type() {
	case "string", "stringSlice", "stringArray", "stringToString":
		return true
	}
	return false
}

func (v *flagValue) Set(text string) error {
	if v.allowed != nil && !slices.Contains(v.allowed, text) {
		return fmt.Errorf("it has to be one of %s", strings.Join(slices.DeleteFunc(slices.Clone(v.allowed), isEmpty), ", "))
	}
	v.texts = append(v.texts, text)
	err := v.Value.Set(text)
	var number *strconv.NumError // which says by what function of Go it was read
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

func isEmpty(text string) bool { return text == "" }

// nameOf gives the name of a flag, an argument or a command.
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
