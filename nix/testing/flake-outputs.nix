# Evaluates flake.nix and what it wires against a stand-in for nixpkgs: enough to see
# that every output is there, that the package names its modules' hash and that the
# module is the module.
let
  lib = import ./lib.nix // { licenses.asl20 = "Apache-2.0"; platforms.linux = [ "x86_64-linux" ]; };
  # callPackage hands a function the arguments that it names.
  scope = { inherit lib; buildGoModule = attrs: attrs // { type = "derivation"; }; mkShell = attrs: attrs; }
    // builtins.listToAttrs (map (name: { inherit name; value = name; })
    [ "go" "nodejs" "gnumake" "gcc" "chromium" "gofumpt" "golangci-lint" "grpcurl" "python312" ]);
  callPackage = path: overrides:
    let f = import path; in f (builtins.intersectAttrs (builtins.functionArgs f) scope // overrides);
  nixpkgs.legacyPackages = { x86_64-linux = { inherit callPackage; }; aarch64-linux = { inherit callPackage; }; };

  outputs = (import ../../flake.nix).outputs { self = { }; inherit nixpkgs; };
  package = outputs.packages.x86_64-linux.default;
in
{
  systems = builtins.attrNames outputs.packages;
  inherit (package) pname version vendorHash;
  mainProgram = package.meta.mainProgram;
  lazy = builtins.elem "-extldflags=-Wl,-z,lazy" package.ldflags;
  shell = builtins.length outputs.devShells.x86_64-linux.default.packages > 0;
  module = builtins.isFunction outputs.nixosModules.default;
  overlay = (outputs.overlays.default { inherit callPackage; } { }).lmwarden.pname;
}
