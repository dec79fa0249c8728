// Package store keeps what the box is told to do, in one bbolt file.
//
// The nouns: a record is opaque bytes under a name, with a revision that counts up
// with each change and a checksum. The store knows no message of the API and
// interprets no byte of a record: a record that cannot be read is returned as broken
// and never hides the others.
//
// There is one writer, this process: the file is locked. Every change is one
// transaction that is on the disk when the call returns, so that a kill at any moment
// leaves the state before or after it. The file has a schema version; [Open] brings
// an older one forward, after a copy, and refuses a newer one. A file that cannot be
// read stops [Open] with a [CorruptError] and is never overwritten; it is renamed
// only when the caller asks for that.
package store
