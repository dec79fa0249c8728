{
  description = "LM Warden: keeps each conversation on the replica that holds its cache";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  # This file only wires; what is built and configured stands in nix/.
  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      each = f: builtins.listToAttrs (map (system: { name = system; value = f nixpkgs.legacyPackages.${system}; }) systems);
    in
    {
      packages = each (pkgs: rec {
        lmwarden = pkgs.callPackage ./nix/package.nix { };
        default = lmwarden;
      });

      devShells = each (pkgs: { default = pkgs.callPackage ./nix/shell.nix { }; });

      nixosModules = rec {
        lmwarden = import ./nix/module.nix;
        default = lmwarden;
      };

      overlays.default = final: _prev: { lmwarden = final.callPackage ./nix/package.nix { }; };
    };
}
