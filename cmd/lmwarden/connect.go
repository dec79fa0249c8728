package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) connectCommand() *cobra.Command {
	var model, key string
	c := &cobra.Command{
		Use:   "connect [CLIENT]",
		Short: "Print what to paste so that a client uses this box; without CLIENT list the clients",
		Long:  "Print what to paste so that a client uses this box, always as plain text. Without CLIENT\nlist the clients that there are recipes for.",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				// The clients are the same for every model, and when there is none yet.
				list, err := cs.system.ListRecipes(c.Context(), &lmwardenv1.ListRecipesRequest{Model: "MODEL"})
				if err != nil {
					return err
				}
				return a.printRecipes(list.GetRecipes())
			}
			if model, err = a.chooseModel(c.Context(), cs, model); err != nil {
				return err
			}
			list, err := cs.system.ListRecipes(c.Context(), &lmwardenv1.ListRecipesRequest{Model: model, Key: or(key, a.getenv("LMWARDEN_KEY"))})
			if err != nil {
				return err
			}
			return a.printRecipe(list, args[0])
		},
	}
	c.Flags().StringVar(&model, "model", "", "model to use; not needed when there is only one")
	c.Flags().StringVar(&key, "key", "", "API key to print; better set LMWARDEN_KEY; not needed when the daemon asks for none")
	return c
}

// printRecipes lists the clients that there are recipes for.
func (a *app) printRecipes(recipes []*lmwardenv1.Recipe) error {
	t := a.newTable("client", "for", "where it goes")
	for _, r := range recipes {
		t.add(r.GetClient(), r.GetTitle(), r.GetWhere())
	}
	t.print(a.out)
	return nil
}

// printRecipe prints the recipe of a client, and beside it, where it goes to and what must
// be heeded.
func (a *app) printRecipe(list *lmwardenv1.ListRecipesResponse, client string) error {
	var names []string
	for _, r := range list.GetRecipes() {
		if r.GetClient() != client {
			names = append(names, r.GetClient())
			continue
		}
		fmt.Fprintf(a.err, "%s:\n", r.GetWhere())
		if _, err := io.WriteString(a.out, r.GetText()+"\n"); err != nil {
			return err
		}
		if list.GetNote() != "" {
			fmt.Fprintf(a.err, "%s It can be given in LMWARDEN_KEY.\n", list.GetNote())
		}
		return nil
	}
	return usageErrorf("there is no recipe for %q; choose from %s", client, strings.Join(names, ", "))
}

// chooseModel returns the wanted model, or the only one there is.
func (a *app) chooseModel(ctx context.Context, cs *clients, wanted string) (string, error) {
	list, err := cs.models.ListModels(ctx, &lmwardenv1.ListModelsRequest{})
	if err != nil {
		return "", err
	}
	var names []string
	for _, m := range list.GetModels() {
		names = append(names, m.GetName())
	}
	switch {
	case len(names) == 0:
		return "", &codeError{exitNotFound, fmt.Errorf("there is no model yet; make one with \"lmwarden model add\"")}
	case wanted == "" && len(names) == 1:
		return names[0], nil
	case wanted == "":
		return "", usageErrorf("there are several models; choose with --model from %s", strings.Join(names, ", "))
	case !slices.Contains(names, wanted):
		return "", &codeError{exitNotFound, fmt.Errorf("there is no model %q; there are %s", wanted, strings.Join(names, ", "))}
	}
	return wanted, nil
}
