// Package uuid stands in for the release of 2015 that AWS's plugin asks for, which no registry serves any more.
// It holds what the plugin uses: random identifiers in their usual spelling.
package uuid

import (
	"crypto/rand"
	"fmt"
)

// UUID is 16 bytes and their text.
type UUID interface {
	Bytes() []byte
	String() string
}

// Format is ignored: there is one spelling.
type Format string

// CleanHyphen is that spelling.
const CleanHyphen Format = "8-4-4-4-12"

type value [16]byte

func (v value) Bytes() []byte { return v[:] }

func (v value) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:])
}

// New is the identifier of these 16 bytes.
func New(b []byte) UUID {
	var v value
	copy(v[:], b)
	return v
}

// NewV4 is a random identifier.
func NewV4() UUID {
	var v value
	if _, err := rand.Read(v[:]); err != nil {
		panic(err)
	}
	v[6], v[8] = v[6]&0x0f|0x40, v[8]&0x3f|0x80
	return v
}

// SwitchFormat does nothing.
func SwitchFormat(Format) {}
