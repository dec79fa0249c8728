# What a developer needs: Go, Node for the page, Chromium for its tests.
{ mkShell, go, nodejs, gnumake, gcc, chromium, gofumpt, golangci-lint, grpcurl, python312 }:

mkShell {
  packages = [ go nodejs gnumake gcc chromium gofumpt golangci-lint grpcurl python312 ];
}
