package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"
)

// version is set by the linker.
var version = ""

// versionText is the linker's version, or what the module knows of itself.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  arguments(),
		RunE: func(*cobra.Command, []string) error {
			m := &structpb.Struct{Fields: map[string]*structpb.Value{"version": structpb.NewStringValue(versionText())}}
			return a.show(m, func(w io.Writer) { fmt.Fprintf(w, "lmwarden %s\n", versionText()) })
		},
	}
}
