package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) gpuCommand() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List the cards with memory, load and owner",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			gpus, err := cs.gpus.ListGpus(c.Context(), &lmwardenv1.ListGpusRequest{})
			if err != nil {
				return err
			}
			return a.show(gpus, func(w io.Writer) { a.printGpus(w, gpus.GetGpus(), gpus.GetMessage()) })
		},
	}
	watch := &cobra.Command{
		Use:   "watch",
		Short: "Print the cards once a second until interrupted",
		Args:  arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			cs, err := a.dial()
			if err != nil {
				return err
			}
			stream, err := cs.gpus.WatchGpus(c.Context(), &lmwardenv1.WatchGpusRequest{})
			if err != nil {
				return err
			}
			return receive(c.Context(), stream, func(m *lmwardenv1.WatchGpusResponse) error {
				return a.redraw(m, func(w io.Writer) { a.printGpus(w, m.GetGpus(), m.GetMessage()) })
			})
		},
	}
	return parent("gpu", "List and watch the cards", list, watch)
}

func (a *app) printGpus(w io.Writer, gpus []*lmwardenv1.Gpu, message string) {
	if message != "" {
		_, _ = fmt.Fprintln(w, message)
	}
	if len(gpus) == 0 {
		return
	}
	headings := []string{">gpu", "name", ">memory used", ">memory", ">busy", ">temperature", ">power", "replica"}
	if a.wide() {
		headings = append(headings, "uuid", "pci", "compute")
	}
	t := a.newTable(headings...)
	for _, g := range gpus {
		owner := cell{"free", faint}
		if g.GetModel() != "" {
			owner = cell{text: g.GetModel() + "/" + index(g.Replica)}
		}
		row := []any{
			count(g.GetIndex()), g.GetName(), optional(g.MemoryUsedBytes, gib), optional(g.MemoryTotalBytes, gib),
			optional(g.Utilization, func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }),
			optional(g.TemperatureCelsius, func(v uint32) string { return fmt.Sprintf("%d °C", v) }),
			optional(g.PowerWatts, func(v float64) string { return fmt.Sprintf("%.0f W", v) }),
			owner,
		}
		if a.wide() {
			row = append(row, g.GetUuid(), g.GetPciBusId(), or(g.GetComputeCapability(), notReported))
		}
		t.add(row...)
	}
	t.print(w)
	for _, g := range gpus {
		if g.GetMessage() != "" {
			_, _ = fmt.Fprintf(w, "gpu %d: %s\n", g.GetIndex(), g.GetMessage())
		}
	}
}
