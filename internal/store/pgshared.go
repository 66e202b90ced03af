package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// Many rows of one transaction have the same value in many columns. A variant of the statement gets
// such a column once, not as an array with an element for each row. Keys always are arrays: the
// planner must look each row up by its key.

const (
	// shareFrom is from how many rows on columns are compared.
	shareFrom = 16
	// maxVariants is how many variants of a statement a connection may have, each of which PostgreSQL
	// keeps prepared. If rows have other columns in common then, all of them are sent as arrays.
	maxVariants = 8
)

// columnSet is a set of the columns of a statement.
type columnSet [2]uint64

func (s *columnSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *columnSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

// variants are the texts of the variants of one statement.
type variants map[columnSet]string

// of gives the text of the variant that gets some columns once; false if there are too many.
func (v variants) of(s pgStatement, once columnSet) (text string, ok bool) {
	if once == (columnSet{}) {
		return s.text, true
	}
	text, ok = v[once]
	if ok || len(v) == maxVariants {
		return text, ok
	}
	text = s.text
	for i, t := range s.types {
		if once.has(i) {
			text = strings.Replace(text, fmt.Sprintf("unnest($%d::%s[])", i+1, t), fmt.Sprintf("$%d::%s", i+1, t), 1)
		}
	}
	v[once] = text
	return text, true
}

// share gives the variant of a statement for many rows, and its arguments.
func (w *pgWriter) share(s pgStatement, rows [][]any) (text string, arguments []any, err error) {
	arrays, err := columnsOf(rows, s.types, &w.buffer)
	if err != nil {
		return "", nil, err
	}
	var once columnSet
	for i := s.keys; i < len(arrays); i++ {
		if allEqual(arrays[i].(column).array) {
			once.add(i)
		}
	}
	known := w.variants[s.text]
	if known == nil {
		known = variants{}
		w.variants[s.text] = known
	}
	text, ok := known.of(s, once)
	if !ok {
		return s.text, arrays, nil
	}
	for i := s.keys; i < len(arrays); i++ {
		if once.has(i) {
			value := []any{rows[0][i]}
			if err := values(value); err != nil {
				return "", nil, err
			}
			asTextArguments(value)
			arrays[i] = value[0]
		}
	}
	return text, arrays, nil
}

// allEqual reports whether all elements of an encoded array are equal.
func allEqual(array []byte) bool {
	elements := array[arrayHeader:]
	size := 4
	if n := binary.BigEndian.Uint32(elements); n != lengthOfNull {
		size += int(n)
	}
	return bytes.Equal(elements[size:], elements[:len(elements)-size])
}
