package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/face"
)

func (a *app) keyCommand() *cobra.Command {
	return parent("key", "List API keys and limit what they may take",
		a.keyListCommand(), a.keyShowCommand(), a.keySetCommand())
}

func (a *app) keyListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the names of the API keys with their limits in force; \"*\" stands for every key",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			list, err := cs.keys.ListKeys(c.Context(), &lmwardenv1.ListKeysRequest{})
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer) { a.printKeys(w, list.GetKeys()) })
		},
	}
}

func (a *app) keyShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show the limits of an API key; -o wide shows those that are not set too",
		Args:  arguments("NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			list, err := cs.keys.ListKeys(c.Context(), &lmwardenv1.ListKeysRequest{})
			if err != nil {
				return err
			}
			var names []string
			for _, k := range list.GetKeys() {
				if k.GetName() == args[0] {
					return a.showKey(k)
				}
				names = append(names, fmt.Sprintf("%q", k.GetName()))
			}
			return &codeError{exitNotFound, fmt.Errorf("there is no key %q; there are %s", args[0], strings.Join(names, ", "))}
		},
	}
}

func (a *app) keySetCommand() *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "set NAME --LIMIT VALUE...",
		Short:   "Change the limits of an API key, live; NAME \"*\" is every key",
		Long:    "Change the limits of an API key, live. An empty value takes a limit back. \"*\" stands for\nevery key, and where no key is asked for, for all clients together.",
		Example: "  lmwarden key set team-a --max-requests-per-minute 60 --max-tokens-per-minute 200000",
		Args:    arguments("NAME"),
	}
	limits := addSettings(c.Flags(), (&lmwardenv1.KeyLimits{}).ProtoReflect().Descriptor(), "")
	c.Flags().Uint64Var(&revision, "revision", 0, "refuse when the limits have another revision by now; 0 does not ask")
	c.RunE = func(c *cobra.Command, args []string) error {
		req := &lmwardenv1.UpdateKeyRequest{Name: args[0], Limits: &lmwardenv1.KeyLimits{}, Revision: revision}
		var err error
		if req.UpdateMask, err = limits.change(req.Limits, c.Example); err != nil {
			return err
		}
		cs, err := a.dial()
		if err != nil {
			return err
		}
		k, err := cs.keys.UpdateKey(c.Context(), req)
		if err != nil {
			return err
		}
		return a.showKey(k.GetKey())
	}
	return c
}

// showKey prints one key with its own limits.
func (a *app) showKey(k *lmwardenv1.Key) error {
	return a.show(k, func(w io.Writer) {
		values := []string{"key", k.GetName(), "revision", fmt.Sprint(k.GetRevision())}
		if k.GetDeclaredIn() != "" {
			values = append(values, "declared in", k.GetDeclaredIn()+" (change it there)")
		}
		a.pairs(w, values...)
		a.printSettings(w, k.GetLimits())
	})
}

// printKeys prints one line per key, with a column for each limit.
func (a *app) printKeys(w io.Writer, keys []*lmwardenv1.Key) {
	fields := face.Fields((&lmwardenv1.KeyLimits{}).ProtoReflect().Descriptor())
	headings := []string{"key"}
	for _, f := range fields {
		headings = append(headings, ">"+strings.TrimPrefix(f.Name, "max_"))
	}
	t := a.newTable(headings...)
	for _, k := range keys {
		row := []any{k.GetName()}
		for _, f := range fields {
			text, err := face.Get(k.GetInForce(), f.Name)
			if err != nil {
				text = err.Error()
			}
			row = append(row, or(text, "any"))
		}
		t.add(row...)
	}
	t.print(w)
}
