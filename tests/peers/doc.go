// Command peers runs the same load through other routers and through ours, in front of
// the same simulated engines, and prints a table with the bench's columns.
//
// An arm is one router with its flags. For each step (a number of sessions) of each
// round every arm gets engines that have just started, so that no cache remembers the
// arm before, and a router that has just started; the load then goes to one address,
// whoever listens there. Arms take turns: each step and round turns their order around,
// so that none always comes first. An arm that does not start, or answers nothing, is
// said so in the table and the others go on.
//
// What the engines compute is simulated; the HTTP between load, router and engines is
// real and shares the processors of the machine. The program starts processes and
// measures; it takes no part in routing, and knows nothing of ours but its command line.
package main
