package main

import (
	"github.com/lmwarden/lmwarden/server/face"
	"github.com/spf13/cobra"
)

// newDocsCommand prints what is generated from the API's definition; make generate
// keeps the committed files up to date with it.
func newDocsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "docs",
		Short:  "print files that are generated from the API's definition",
		Hidden: true,
		Args:   cobra.NoArgs,
	}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "settings",
			Short: "print the settings reference, in Markdown",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return face.WriteReference(cmd.OutOrStdout()) },
		},
		&cobra.Command{
			Use:   "nix",
			Short: "print the NixOS options of the settings",
			Args:  cobra.NoArgs,
			RunE:  func(cmd *cobra.Command, _ []string) error { return face.WriteNix(cmd.OutOrStdout()) },
		},
	)
	return cmd
}
