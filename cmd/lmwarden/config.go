package main

import (
	"errors"
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

// problemsOf returns the texts of the problems that an error joins, one each, without the
// lines of the file that a person is shown below a problem. What the error says before it
// begins with them is left out.
func problemsOf(err error) []string {
	if wrapped := errors.Unwrap(err); wrapped != nil {
		if texts := split(wrapped); len(texts) > 1 {
			return texts
		}
	}
	return split(err)
}

// split returns the texts of the errors that an error joins, at any depth, each with what
// is said before it.
func split(err error) (texts []string) {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			texts = append(texts, split(one)...)
		}
		return texts
	}
	text := strings.TrimSpace(err.Error())
	if wrapped := errors.Unwrap(err); wrapped != nil {
		before, found := strings.CutSuffix(text, strings.TrimSpace(wrapped.Error()))
		if inner := split(wrapped); found && len(inner) > 1 {
			for _, one := range inner {
				texts = append(texts, before+one)
			}
			return texts
		}
	}
	first, _, _ := strings.Cut(text, "\n")
	return []string{first}
}

// textList is a list of texts for an answer that is no message of the API.
func textList(texts []string) *structpb.Value {
	list := &structpb.ListValue{}
	for _, text := range texts {
		list.Values = append(list.Values, structpb.NewStringValue(text))
	}
	return structpb.NewListValue(list)
}
