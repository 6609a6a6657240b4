package wire

// The first bytes of msgpack values. The library has them as variables, which make slow
// switches.
const (
	codeFixedMap   = 0x80
	codeFixedArray = 0x90
	codeFixedText  = 0xa0
	codeNil        = 0xc0
	codeFalse      = 0xc2
	codeTrue       = 0xc3
	codeBin8       = 0xc4
	codeBin16      = 0xc5
	codeBin32      = 0xc6
	codeFloat      = 0xca
	codeDouble     = 0xcb
	codeUint8      = 0xcc
	codeUint16     = 0xcd
	codeUint32     = 0xce
	codeUint64     = 0xcf
	codeInt8       = 0xd0
	codeInt16      = 0xd1
	codeInt32      = 0xd2
	codeInt64      = 0xd3
	codeText8      = 0xd9
	codeText16     = 0xda
	codeText32     = 0xdb
	codeArray16    = 0xdc
	codeArray32    = 0xdd
	codeMap16      = 0xde
	codeMap32      = 0xdf
	codeFixedMinus = 0xe0
)

// The largest lengths that fit in the first byte.
const (
	maxFixedMap   = 0x0f
	maxFixedArray = 0x0f
	maxFixedText  = 0x1f
)
