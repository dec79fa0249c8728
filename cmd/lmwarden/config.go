package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lmwarden/lmwarden/server"
)

func (a *app) configCommand() *cobra.Command {
	check := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a configuration file; problems are named with their lines",
		Args:  arguments("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			notes, err := server.CheckConfig(args[0])
			for _, note := range notes {
				fmt.Fprintf(a.err, "note: %s\n", note)
			}
			if err != nil {
				return &codeError{exitUsage, err}
			}
			return a.write([]byte(args[0] + " is a valid configuration\n"))
		},
	}
	return parent("config", "Check configuration files", check)
}
