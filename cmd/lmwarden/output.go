package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"buf.build/go/protoyaml"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Forms of an answer.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

// checkOutput refuses a form that does not exist. The verbs with forms of their own
// (bench, simulate) check again.
func (a *app) checkOutput() error {
	switch a.output {
	case outputTable, outputWide, outputJSON, outputYAML, outputCSV, outputHTML, outputSVG:
		return nil
	}
	return usageErrorf("--output %q does not exist; choose table, wide, json or yaml", a.output)
}

// wide says whether everything shall be shown.
func (a *app) wide() bool { return a.output == outputWide }

// show prints an answer: as a table by the given function, or the whole message for
// a script.
func (a *app) show(m proto.Message, table func(io.Writer)) error {
	switch a.output {
	case outputJSON:
		data, err := jsonOf(m, "  ")
		if err != nil {
			return err
		}
		return a.write(append(data, '\n'))
	case outputYAML:
		data, err := protoyaml.MarshalOptions{Indent: 2}.Marshal(m)
		if err != nil {
			return fmt.Errorf("write the answer as YAML: %w", err)
		}
		return a.write(data)
	case outputTable, outputWide:
		var b bytes.Buffer
		table(&b)
		return a.write(b.Bytes())
	}
	return usageErrorf("this verb has no form %q; choose table, wide, json or yaml", a.output)
}

// showLine prints one message of a stream: a line of JSON, a YAML document, or what
// the table function prints.
func (a *app) showLine(m proto.Message, table func(io.Writer)) error {
	switch a.output {
	case outputJSON:
		data, err := jsonOf(m, "")
		if err != nil {
			return err
		}
		return a.write(append(data, '\n'))
	case outputYAML:
		if err := a.write([]byte("---\n")); err != nil {
			return err
		}
	}
	return a.show(m, table)
}

// write writes to standard output; a reader that went away ends the verb.
func (a *app) write(data []byte) error {
	if _, err := a.out.Write(data); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// jsonOf is protojson with a stable form: fields without presence are always there,
// and the spaces, which protojson varies on purpose, are ours.
func jsonOf(m proto.Message, indent string) ([]byte, error) {
	data, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("write the answer as JSON: %w", err)
	}
	var out bytes.Buffer
	if indent == "" {
		err = json.Compact(&out, data)
	} else {
		err = json.Indent(&out, data, "", indent)
	}
	if err != nil {
		return nil, fmt.Errorf("write the answer as JSON: %w", err)
	}
	return out.Bytes(), nil
}
