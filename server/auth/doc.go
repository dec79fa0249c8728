// Package auth decides who may call.
//
// The admin API asks for one token ([Token]), checked by an interceptor that runs
// before a body is read or decoded. The inference endpoint asks for one of the keys
// of a file ([ReadKeys]); package proxy checks them itself, against the hashes of
// its snapshot. [LocalHosts] keeps a page of another site from reaching a loopback
// listener through a name that it controls, [OwnPages] from sending it anything.
//
// Nothing here logs or answers with a secret.
package auth
