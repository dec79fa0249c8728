package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/lmwarden/lmwarden"

// A source is one parsed Go file of the repository.
type source struct {
	path      string // from the root, with slashes: "proxy/handler.go"
	dir       string // "proxy"
	test      bool
	generated bool
	lines     int
	file      *ast.File
	fset      *token.FileSet
}

// imports returns the import paths of the file.
func (s source) imports() []string {
	var paths []string
	for _, spec := range s.file.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// sources parses every Go file of the repository, generated ones too.
func sources(t *testing.T) []source {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var found []source
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if base := entry.Name(); base == "node_modules" || base == "testdata" || strings.HasPrefix(base, ".") && name != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, rel, text, parser.ParseComments)
		if err != nil {
			return err
		}
		found = append(found, source{
			path:      rel,
			dir:       path.Dir(rel),
			test:      strings.HasSuffix(rel, "_test.go"),
			generated: ast.IsGenerated(file),
			lines:     strings.Count(string(text), "\n"),
			file:      file,
			fset:      fset,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 50 {
		t.Fatalf("only %d Go files were found below %s; the rules would hold vacuously", len(found), root)
	}
	return found
}
