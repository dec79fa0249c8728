// Package face reads how the fields of a settings message are shown.
//
// Beside each field the API's definition states a face (label, help, unit, group,
// when a change applies) and rules (range, pattern). [Fields] reads both from the
// descriptor, so that the page's forms, the flags of the command line and the
// settings reference are one description. [Set] and [Get] turn a field's value from
// and into text by the same rules everywhere: "working set", "4h", "on", and an empty
// text for a value that is left to its default.
package face
