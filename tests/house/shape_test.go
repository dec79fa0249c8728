package house

import (
	"go/ast"
	"strings"
	"testing"
)

// Budgets of the house. A file past the soft limit is listed by the p90 rule, one
// past the hard limit is too long whatever it holds.
const (
	fileSoftLines    = 400
	fileHardLines    = 600
	longFunction     = 60  // lines; at most 3 % of the functions are longer
	hotPathFunction  = 100 // lines; none in proxy/ is longer
	documentedShare  = 0.95
	longFunctionsCap = 0.03
)

func TestEveryPackageHasAComment(t *testing.T) {
	commented, packages := map[string]bool{}, map[string]bool{}
	for _, src := range sources(t) {
		if src.test || src.generated {
			continue
		}
		packages[src.dir] = true
		if src.file.Doc != nil && strings.TrimSpace(src.file.Doc.Text()) != "" {
			commented[src.dir] = true
		}
	}
	for dir := range packages {
		if !commented[dir] {
			t.Errorf("package %s has no package comment: say its purpose, its nouns, who owns what, and what it does not do", dir)
		}
	}
}

func TestExportedSymbolsAreDocumented(t *testing.T) {
	documented, exported := 0, 0
	for _, src := range sources(t) {
		if src.test || src.generated {
			continue
		}
		for _, decl := range src.file.Decls {
			for _, symbol := range exportedSymbols(decl) {
				exported++
				if symbol.documented {
					documented++
				} else {
					t.Logf("%s: %s has no doc comment", src.path, symbol.name)
				}
			}
		}
	}
	if share := float64(documented) / float64(exported); share < documentedShare {
		t.Errorf("%d of %d exported symbols are documented (%.1f %%); at least %.0f %% must be",
			documented, exported, share*100, documentedShare*100)
	}
}

type symbol struct {
	name       string
	documented bool
}

// exportedSymbols returns the exported functions, methods of exported types, types,
// variables and constants of a declaration. A comment on a group counts for it.
func exportedSymbols(decl ast.Decl) []symbol {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !exportedReceiver(d.Recv) {
			return nil
		}
		return []symbol{{d.Name.Name, d.Doc != nil}}
	case *ast.GenDecl:
		var found []symbol
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					found = append(found, symbol{s.Name.Name, d.Doc != nil || s.Doc != nil})
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						found = append(found, symbol{name.Name, d.Doc != nil || s.Doc != nil || s.Comment != nil})
					}
				}
			}
		}
		return found
	}
	return nil
}

func exportedReceiver(list *ast.FieldList) bool {
	kind := list.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	name, ok := kind.(*ast.Ident)
	return ok && name.IsExported()
}

func TestFilesAreShort(t *testing.T) {
	long, all := 0, 0
	for _, src := range sources(t) {
		if src.generated {
			continue
		}
		all++
		if src.lines > fileHardLines {
			t.Errorf("%s has %d lines; the hard limit is %d: one file has one subject", src.path, src.lines, fileHardLines)
		}
		if src.lines > fileSoftLines {
			long++
			t.Logf("%s has %d lines", src.path, src.lines)
		}
	}
	if long*10 > all {
		t.Errorf("%d of %d files are longer than %d lines; nine of ten must be shorter", long, all, fileSoftLines)
	}
}

func TestFunctionsAreShort(t *testing.T) {
	long, all := 0, 0
	for _, src := range sources(t) {
		if src.test || src.generated {
			continue
		}
		for _, decl := range src.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			all++
			lines := src.fset.Position(fn.End()).Line - src.fset.Position(fn.Pos()).Line + 1
			if lines > longFunction {
				long++
				t.Logf("%s: %s has %d lines", src.path, fn.Name.Name, lines)
			}
			if lines > hotPathFunction && below(src.dir, "proxy") {
				t.Errorf("%s: %s has %d lines; none in proxy/ may have more than %d", src.path, fn.Name.Name, lines, hotPathFunction)
			}
		}
	}
	if share := float64(long) / float64(all); share > longFunctionsCap {
		t.Errorf("%d of %d functions (%.1f %%) are longer than %d lines; at most %.0f %% may be",
			long, all, share*100, longFunction, longFunctionsCap*100)
	}
}

// Sleeping in a test is a guess about time; the clock is fake or the event is waited for.
func TestNoSleepInTestsOfTheCore(t *testing.T) {
	for _, src := range sources(t) {
		if !src.test || !below(src.dir, "proxy") && !below(src.dir, "supervisor") {
			continue
		}
		ast.Inspect(src.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && sel.Sel.Name == "Sleep" && !inSynctest(src) {
				t.Errorf("%s sleeps; use testing/synctest, a channel or an event", src.path)
			}
			return true
		})
	}
}

// inSynctest says whether the file's time is fake: under testing/synctest a sleep
// costs nothing and waits for exactly what it says.
func inSynctest(src source) bool {
	for _, imported := range src.imports() {
		if imported == "testing/synctest" {
			return true
		}
	}
	return false
}
