// Package upstream speaks HTTP/1.1 with one engine: a [Client] keeps connections, sends
// a request on one, and reads the answer from it in the goroutine of the exchange itself.
//
// It takes the place of http.Transport, which can do much that an engine does not need
// (proxies, HTTP/2, redirection of a request to another connection) and pays for it with
// two goroutines, two buffers and several hand-overs per exchange. Here an open stream
// is one connection, and no goroutine; it has a buffer only while there is something to
// be read. The answer is read by http.ReadResponse, so that there is one parser of HTTP.
//
// Where to read what: client.go is the life of an exchange, address.go where it goes,
// request.go what is sent, send.go how it is sent without ever waiting for an engine that
// answers before it has read all, answer.go what is read, reader.go how it is waited for,
// idle.go the connections that are kept.
//
// Rules that hold everywhere:
//
//   - Who owns a connection: the exchange that uses it, or the idle list. It goes back to
//     the list only behind the last byte of an answer with a length of its own, and never
//     when a byte more has come, the exchange was cancelled, or the client was told to
//     forget its connections meanwhile.
//   - When the context of an exchange ends its connection is closed at once, in every
//     phase: that is how an engine learns that nobody waits for the answer.
//   - A request is sent once. Whether it may be sent again is for the caller, who is told
//     what is known: a [DialError] when nothing was sent, a [StaleError] when a kept
//     connection broke before a byte of an answer.
//
// It knows no model, no replica and no retry.
package upstream
