package content

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/wire"
)

// EncodeMsgpack encodes the item as its tags say.
func (it Item) EncodeMsgpack(e *msgpack.Encoder) error {
	if wire.Write(e, &it, (*Item).Fields) {
		return nil
	}
	type tagged Item
	return e.Encode((*tagged)(&it))
}

// DecodeMsgpack decodes the result of EncodeMsgpack.
func (it *Item) DecodeMsgpack(d *msgpack.Decoder) error {
	if done, err := wire.Read(d, it, (*Item).Fields); done {
		return err
	}
	type tagged Item
	return d.Decode((*tagged)(it))
}

// Fields lists the fields of the item for package wire.
func (it *Item) Fields(r *wire.Record) {
	wire.Text(r.Opt("id"), &it.ID)
	wire.Text(r.Key("k"), &it.Kind)
	wire.List(r.Key("p"), &it.Parts, (*Part).fields)
	wire.Int(r.Opt("at"), &it.CreatedAt)
	wire.Pointer(r.Opt("u"), &it.Usage, (*Usage).Fields)
	wire.Text(r.Opt("fr"), &it.FinishReason)
	wire.List(r.Opt("md"), &it.Metadata, (*Field).Fields)
}

func (p *Part) fields(r *wire.Record) {
	wire.Text(r.Key("k"), &p.Kind)
	wire.Text(r.Opt("t"), &p.Text)
	wire.Text(r.Opt("n"), &p.Name)
	wire.Bytes(r.Opt("d"), &p.Data)
	wire.Pointer(r.Opt("m"), &p.Media, (*Media).fields)
	wire.Pointer(r.Opt("r"), &p.Reasoning, (*Reasoning).fields)
	wire.Pointer(r.Opt("c"), &p.Call, (*ToolCall).Fields)
	wire.Pointer(r.Opt("rs"), &p.Result, (*ToolResult).Fields)
	wire.List(r.Opt("md"), &p.Metadata, (*Field).Fields)
}

func (m *Media) fields(r *wire.Record) {
	wire.Text(r.Opt("mo"), &m.Modality)
	wire.Text(r.Opt("mt"), &m.MIME)
	wire.Bytes(r.Opt("b"), &m.Bytes)
	wire.Text(r.Opt("u"), &m.URI)
}

func (s *Reasoning) fields(r *wire.Record) {
	wire.Bytes(r.Opt("s"), &s.Signature)
	wire.Bytes(r.Opt("e"), &s.Encrypted)
	wire.Bool(r.Opt("r"), &s.Redacted)
}

// Fields lists the fields of the field for package wire.
func (f *Field) Fields(r *wire.Record) {
	wire.Text(r.Key("k"), &f.Key)
	wire.Bytes(r.Key("v"), &f.Value)
}

// Fields lists the fields of the call for package wire.
func (c *ToolCall) Fields(r *wire.Record) {
	wire.Text(r.Key("id"), &c.ID)
	wire.Text(r.Opt("pl"), &c.Place)
	wire.Text(r.Key("n"), &c.Name)
	wire.Bytes(r.Opt("in"), &c.Input)
	wire.Text(r.Opt("pid"), &c.ProviderID)
}

// Fields lists the fields of the result for package wire.
func (t *ToolResult) Fields(r *wire.Record) {
	wire.Text(r.Key("id"), &t.CallID)
	wire.Text(r.Opt("n"), &t.Name)
	wire.Text(r.Key("s"), &t.Status)
	wire.List(r.Opt("o"), &t.Output, (*Part).fields)
	wire.Bool(r.Opt("e"), &t.IsError)
	wire.Text(r.Opt("c"), &t.Code)
	wire.List(r.Opt("md"), &t.Metadata, (*Field).Fields)
}

// Fields lists the fields of the usage for package wire.
func (u *Usage) Fields(r *wire.Record) {
	wire.Int(r.Opt("i"), &u.InputTokens)
	wire.Int(r.Opt("o"), &u.OutputTokens)
	wire.Int(r.Opt("r"), &u.ReasoningTokens)
	wire.Int(r.Opt("cr"), &u.CacheReadTokens)
	wire.Int(r.Opt("cw"), &u.CacheWriteTokens)
	wire.Int(r.Opt("c"), &u.CostMicros)
	wire.Text(r.Opt("cu"), &u.Currency)
}

// Fields lists the fields of the routing for package wire.
func (o *Routing) Fields(r *wire.Record) {
	wire.Bool(r.Opt("k"), &o.Known)
	wire.Text(r.Opt("s"), &o.Source)
	wire.Text(r.Opt("q"), &o.Queue)
	wire.Text(r.Opt("e"), &o.Effects)
	wire.Text(r.Opt("r"), &o.Route)
	wire.Int(r.Opt("da"), &o.DetachAfter)
	wire.Bool(r.Opt("qt"), &o.Quiet)
	wire.Bool(r.Opt("ma"), &o.Manual)
	wire.Bool(r.Opt("x"), &o.Exclusive)
	wire.Bool(r.Opt("w"), &o.Writes)
	wire.Int(r.Opt("to"), &o.Timeout)
	wire.Int(r.Opt("mo"), &o.MaxOutput)
	wire.Text(r.Opt("d"), &o.Digest)
}

// Fields lists the fields of the question for package wire.
func (k *QuestionKey) Fields(r *wire.Record) {
	wire.Text(r.Key("k"), &k.Kind)
	wire.Text(r.Opt("s"), &k.Scope)
}

// Fields lists the fields of the cache request for package wire.
func (c *CacheRequest) Fields(r *wire.Record) {
	wire.Text(r.Opt("m"), &c.Mode)
	wire.Text(r.Opt("r"), &c.Retention)
	wire.Text(r.Opt("k"), &c.Key)
	wire.List(r.Opt("b"), &c.Breakpoints, (*Breakpoint).fields)
}

func (b *Breakpoint) fields(r *wire.Record) {
	wire.Text(r.Key("k"), &b.Kind)
	wire.Int(r.Opt("i"), &b.Item)
	wire.Int(r.Opt("p"), &b.Part)
}
