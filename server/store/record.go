package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Record is one named value.
type Record struct {
	// Name is the key of the record.
	Name string
	// Revision counts the changes, from 1; 0 when the record is broken.
	Revision uint64
	// Data is what was stored; nil when the record is broken.
	Data []byte
	// Broken says why the record cannot be read, or is nil.
	Broken error
}

// Layout of a stored value: format, checksum over name and all that follows it,
// revision, data.
const (
	recordFormat = 1
	headerSize   = 1 + 4 + 8
)

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeRecord(name string, revision uint64, data []byte) []byte {
	value := make([]byte, headerSize, headerSize+len(data))
	value[0] = recordFormat
	binary.BigEndian.PutUint64(value[5:], revision)
	value = append(value, data...)
	binary.BigEndian.PutUint32(value[1:], checksum(name, value[5:]))
	return value
}

// decodeRecord never fails: what cannot be read is a broken record. Data is a copy,
// safe to keep after the transaction.
func decodeRecord(name string, value []byte) Record {
	broken := func(err error) Record { return Record{Name: name, Broken: err} }
	switch {
	case len(value) < headerSize:
		return broken(errors.New("the record is cut short"))
	case value[0] != recordFormat:
		return broken(fmt.Errorf("the record has the unknown format %d", value[0]))
	case binary.BigEndian.Uint32(value[1:]) != checksum(name, value[5:]):
		return broken(errors.New("the record's checksum is wrong"))
	}
	return Record{
		Name:     name,
		Revision: binary.BigEndian.Uint64(value[5:]),
		Data:     append([]byte{}, value[headerSize:]...),
	}
}

// checksum covers the name, so that a value under another key shows.
func checksum(name string, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte(name), castagnoli), castagnoli, rest)
}
