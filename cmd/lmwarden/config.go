package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/lmwarden/lmwarden/server"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file; problems are named with their lines",
		Args:  arguments("FILE"),
		RunE:  func(_ *cobra.Command, args []string) error { return a.checkConfig(args[0]) },
	}
	return parent("config", "Check configuration files", check)
}

// checkConfig says whether the file is valid. Notes and problems go to standard error,
// and for a script also into the answer.
func (a *app) checkConfig(path string) error {
	notes, err := server.CheckConfig(path)
	for _, note := range notes {
		fmt.Fprintf(a.err, "note: %s\n", note)
	}
	answer := &structpb.Struct{Fields: map[string]*structpb.Value{
		"file":     structpb.NewStringValue(path),
		"valid":    structpb.NewBoolValue(err == nil),
		"notes":    textList(notes),
		"problems": textList(problemsOf(err)),
	}}
	printed := a.show(answer, func(w io.Writer) {
		if err == nil {
			fmt.Fprintf(w, "%s is a valid configuration\n", path)
		}
	})
	if err != nil {
		return &codeError{exitUsage, err}
	}
	return printed
}

// problemsOf returns the texts of the problems that an error joins.
func problemsOf(err error) (texts []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			texts = append(texts, problemsOf(one)...)
		}
		return texts
	}
	if err != nil {
		texts = append(texts, strings.TrimSpace(err.Error()))
	}
	return texts
}

// textList is a list of texts for an answer that is no message of the API.
func textList(texts []string) *structpb.Value {
	list := &structpb.ListValue{}
	for _, text := range texts {
		list.Values = append(list.Values, structpb.NewStringValue(text))
	}
	return structpb.NewListValue(list)
}
