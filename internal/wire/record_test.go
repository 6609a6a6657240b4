package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

type name string

// node has a field of every sort.
type node struct {
	Name    name            `msgpack:"n"`
	Label   string          `msgpack:"l,omitempty"`
	Raw     []byte          `msgpack:"r"`
	JSON    json.RawMessage `msgpack:"j,omitempty"`
	Count   int             `msgpack:"c"`
	Wait    time.Duration   `msgpack:"w,omitempty"`
	Seq     uint64          `msgpack:"s,omitempty"`
	Ready   bool            `msgpack:"b"`
	Quiet   bool            `msgpack:"q,omitempty"`
	Leaf    leaf            `msgpack:"lf"`
	Maybe   leaf            `msgpack:"m,omitempty"`
	Left    *node           `msgpack:"p"`
	Right   *node           `msgpack:"o,omitempty"`
	Kids    []node          `msgpack:"k"`
	Leaves  []leaf          `msgpack:"ls,omitempty"`
	Words   []string        `msgpack:"ws"`
	Aliases []string        `msgpack:"as,omitempty"`
}

type leaf struct {
	A string `msgpack:"a,omitempty"`
	B int64  `msgpack:"b,omitempty"`
}

func (v *node) fields(r *Record) {
	Text(r.Key("n"), &v.Name)
	Text(r.Opt("l"), &v.Label)
	Bytes(r.Key("r"), &v.Raw)
	Bytes(r.Opt("j"), &v.JSON)
	Int(r.Key("c"), &v.Count)
	Int(r.Opt("w"), &v.Wait)
	Int(r.Opt("s"), &v.Seq)
	Bool(r.Key("b"), &v.Ready)
	Bool(r.Opt("q"), &v.Quiet)
	Struct(r.Key("lf"), &v.Leaf, (*leaf).fields)
	Struct(r.Opt("m"), &v.Maybe, (*leaf).fields)
	Pointer(r.Key("p"), &v.Left, (*node).fields)
	Pointer(r.Opt("o"), &v.Right, (*node).fields)
	List(r.Key("k"), &v.Kids, (*node).fields)
	List(r.Opt("ls"), &v.Leaves, (*leaf).fields)
	Texts(r.Key("ws"), &v.Words)
	Texts(r.Opt("as"), &v.Aliases)
}

func (v *leaf) fields(r *Record) {
	Text(r.Opt("a"), &v.A)
	Int(r.Opt("b"), &v.B)
}

// full has all fields set, and more of them than fit the shortest header.
func full() node {
	return node{
		Name: "a", Label: strings.Repeat("l", 40), Raw: make([]byte, 300), JSON: json.RawMessage(`{}`), Count: -7,
		Wait: time.Hour, Seq: math.MaxUint64, Ready: true, Quiet: true, Leaf: leaf{A: "x"}, Maybe: leaf{B: -1 << 40},
		Left: &node{Raw: []byte{}, Kids: []node{}, Words: []string{}}, Right: &node{Name: name(strings.Repeat("r", 70_000))},
		Kids: make([]node, 17), Leaves: []leaf{{}, {B: 200}}, Words: []string{"", "w"}, Aliases: make([]string, 20),
	}
}

func samples() []node {
	out := []node{{}, full()}
	for _, n := range []int64{
		0, 1, 127, 128, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, math.MaxInt64,
		-1, -32, -33, -128, -129, -32768, -32769, math.MinInt32, math.MinInt32 - 1, math.MinInt64,
	} {
		out = append(out, node{Count: int(n), Wait: time.Duration(n), Seq: uint64(n), Leaf: leaf{B: n}})
	}
	for _, n := range []int{1, 15, 16, 31, 32, 255, 256, 65535, 65536} {
		out = append(out, node{
			Name: name(make([]byte, n)), Raw: make([]byte, n), Leaves: make([]leaf, n), Words: make([]string, n),
		})
	}
	return out
}

// byLibrary is what the library writes by the tags.
func byLibrary(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := msgpack.NewEncoder(&b)
	enc.UseCompactInts(true)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestARecordWritesWhatTheLibraryWould(t *testing.T) {
	t.Parallel()
	for _, v := range samples() {
		want := byLibrary(t, v)
		got, err := Encode(64, func(e *msgpack.Encoder) error {
			if !Write(e, &v, (*node).fields) {
				t.Error("Write writes nothing")
			}
			return nil
		})
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%+v\n got %.99q, %v\nwant %.99q", v, got, err, want)
		}
	}
}

func TestARecordLeavesOtherDecodersAndEncodersAlone(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	v := full()
	if Write(msgpack.NewEncoder(&b), &v, (*node).fields) || WriteList(msgpack.NewEncoder(&b), v.Kids, (*node).fields) || b.Len() > 0 {
		t.Errorf("it wrote %d bytes", b.Len())
	}
	src := bytes.NewReader(byLibrary(t, v))
	before := src.Len()
	if done, err := Read(msgpack.NewDecoder(src), &v, (*node).fields); done || err != nil || src.Len() != before {
		t.Errorf("Read = %t, %v, and %d bytes are left of %d", done, err, src.Len(), before)
	}
	if done, err := ReadList(msgpack.NewDecoder(src), &v.Kids, (*node).fields); done || err != nil || src.Len() != before {
		t.Errorf("ReadList = %t, %v, and %d bytes are left of %d", done, err, src.Len(), before)
	}
}

// What comes behind a Record is read by the library, and the other way round.
func TestARecordTakesNoMoreThanItsOwn(t *testing.T) {
	t.Parallel()
	v := full()
	raw, err := Encode(64, func(e *msgpack.Encoder) error {
		return errors.Join(e.EncodeArrayLen(4), e.EncodeString("before"), written(Write(e, &v, (*node).fields)),
			written(WriteList(e, v.Leaves, (*leaf).fields)), e.EncodeInt(7))
	})
	if err != nil {
		t.Fatal(err)
	}
	var back node
	var leaves []leaf
	var before string
	var behind int
	err = Decode(raw, 64, func(d *msgpack.Decoder) error {
		_, err := d.DecodeArrayLen()
		_, err1 := Read(d, &back, (*node).fields)
		return errors.Join(err, err1)
	})
	if err == nil {
		t.Error("a string was read as a struct")
	}
	err = Decode(raw, 64, func(d *msgpack.Decoder) error {
		_, err := d.DecodeArrayLen()
		err = errors.Join(err, d.Decode(&before))
		_, err1 := Read(d, &back, (*node).fields)
		_, err2 := ReadList(d, &leaves, (*leaf).fields)
		return errors.Join(err, err1, err2, d.Decode(&behind))
	})
	if err != nil || before != "before" || behind != 7 || !reflect.DeepEqual(back, v) || !reflect.DeepEqual(leaves, v.Leaves) {
		t.Errorf("%q, %d, %v\n%+v\n%+v", before, behind, err, back, leaves)
	}
}

func written(done bool) error {
	if !done {
		return errors.New("nothing is written")
	}
	return nil
}

// FuzzRecord holds a Record against the library: on the same bytes both fail, or both
// read the same.
func FuzzRecord(f *testing.F) {
	for _, v := range samples() {
		if b := byLibrary(f, v); len(b) < 2000 {
			f.Add(b)
		}
	}
	for _, s := range []string{
		"\xc0", "\x90", "\x92\xa1x\x07", "\x91\xc0", "\x80", // nil, fields in a list, none
		"\x82\xa1n\xc0\xa1c\xc0", "\x83\xa1r\xa1x\xa1n\xc4\x01x\xc0\x07", // nil for everything; text for bytes and back
		"\x82\xa1k\x91\x81\xa1c\x07\xa1k\x92\x80\x81\xa1c\x08",               // a list twice
		"\x83\xa2ws\x91\xa1x\xa2ws\xc0\xa1p\x81\xa1c\x01",                    // texts, then nil
		"\x83\xa1p\x81\xa1c\x01\xa1p\x81\xa1n\xa1x\xa1p\xc0", "\x81\x07\x07", // a pointer thrice; a number as name
		"\x82\xa1?\x93\x01\x81\xa1x\xc0\xcb\x00\x00\x00\x00\x00\x00\x00\x00\xa1c\xd0\xff", // an unknown field
		"\x82\xa2lf\x92\xa1x\x07\xa1m\x90", "\xde\x00\x01\xa1c\xd3\xff\xff\xff\xff\xff\xff\xff\xff", "\xdc\x00\x02\x01\x02",
		"\x84\xa1k\x93\x80\x80\x81\xa1c\x07\xa1k\x91\x80\xa1k\x93\x80\x80\x80\xa1b\xc3", // shrinks and grows
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(compare)
}

// Every byte of what is written is replaced by those that begin something else.
func TestARecordReadsWhatTheLibraryReads(t *testing.T) {
	t.Parallel()
	small := full()
	small.Label, small.Raw, small.Right, small.Kids, small.Aliases = "l", []byte("raw"), &node{}, make([]node, 2), []string{"x"}
	raw := byLibrary(t, []node{small})[1:]
	for i, was := range raw {
		for _, c := range []byte("\x00\x01\x80\x81\x90\x91\x92\xa0\xa1\xc0\xc2\xc3\xc4\xcc\xd0\xd9\xdcabnrk") {
			raw[i] = c
			compare(t, raw)
		}
		raw[i] = was
	}
}

// compare holds a Record against the library.
func compare(t *testing.T, b []byte) {
	if Check(b, 16) != nil {
		return
	}
	var want, got node
	wantErr := Safely(func() error { return msgpack.NewDecoder(bytes.NewReader(b)).Decode(&want) })
	err := Decode(b, 16, func(d *msgpack.Decoder) error {
		_, err := Read(d, &got, (*node).fields)
		return err
	})
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("a Record says %v, the library %v, of %q", err, wantErr, b)
	}
	if err != nil {
		return
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("a Record reads\n%+v\nthe library\n%+v\nin %q", got, want, b)
	}
	again, err := Encode(64, func(e *msgpack.Encoder) error { return written(Write(e, &got, (*node).fields)) })
	if want := byLibrary(t, want); err != nil || !bytes.Equal(again, want) {
		t.Fatalf("a Record writes %q, %v, the library %q", again, err, want)
	}
}

// FuzzDecodeList holds what checks while it reads against Check.
func FuzzDecodeList(f *testing.F) {
	f.Add(AppendList(nil, []node{{}, {Name: "x", Words: []string{"w"}}, {Raw: []byte("raw")}}, (*node).fields))
	f.Add([]byte("\xc0"))
	f.Add([]byte("\x91\x81\xa1?\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0"))
	f.Add([]byte("\x91\x81\xa1p\x81\xa1p\x81\xa1p\x81\xa1p\x81\xa1p\x81\xa1p\x80"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const depth = 8
		got, err := DecodeList(b, depth, (*node).fields)
		if err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatalf("DecodeList = %v", err)
		}
		var want []node
		wantErr := Decode(b, depth, func(d *msgpack.Decoder) error {
			_, err := ReadList(d, &want, (*node).fields)
			return err
		})
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, checked first: %v", b, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q:\n got %+v\nwant %+v", b, got, want)
		}
	})
}

func TestALongListKeepsItsElementsApart(t *testing.T) {
	t.Parallel()
	list := make([]node, 1000)
	for i := range list {
		list[i] = full()
		list[i].Right, list[i].Words = &node{Raw: []byte{byte(i)}}, []string{string(make([]byte, i))}
	}
	raw := AppendList(nil, list, (*node).fields)
	if want := byLibrary(t, list); !bytes.Equal(raw, want) {
		t.Error("it is not written as the library does")
	}
	got, err := DecodeList(raw, 16, (*node).fields)
	if err != nil || !reflect.DeepEqual(got, list) {
		t.Fatalf("DecodeList: %v, %d of %d elements", err, len(got), len(list))
	}
	for i := range got { // what is appended to one is not in the next
		got[i].Raw, got[i].JSON = append(got[i].Raw, 1), append(got[i].JSON, 'x')
		got[i].Right.Raw, got[i].Kids = append(got[i].Right.Raw, 2), append(got[i].Kids, node{Count: 3})
		got[i].Leaves = append(got[i].Leaves, leaf{B: 4})
	}
	for i := range got {
		n := len(got[i].Raw) - 1
		got[i].Raw, got[i].JSON, got[i].Right.Raw = got[i].Raw[:n], got[i].JSON[:2], got[i].Right.Raw[:1]
		got[i].Kids, got[i].Leaves = got[i].Kids[:17], got[i].Leaves[:2]
	}
	if !reflect.DeepEqual(got, list) {
		t.Error("elements share what they are kept in")
	}
}

func TestALongListAllocatesNoMoreThanItHolds(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"no elements":     []byte("\xdd\x7f\xff\xff\xff"),
		"empty elements":  append([]byte("\xdd\x00\x10\x00\x00"), bytes.Repeat([]byte{0x80}, 1<<20)...),
		"none inside":     []byte("\x91\x81\xa1k\xdd\x7f\xff\xff\xff"),
		"empty texts":     append([]byte("\x91\x81\xa2ws\xdd\x00\x10\x00\x00"), bytes.Repeat([]byte{0xa0}, 1<<20)...),
		"bytes behind it": []byte("\x90\xc0"),
	} {
		if list, err := DecodeList(b, 16, (*node).fields); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %d elements, %v", name, len(list), err)
		}
	}
}
