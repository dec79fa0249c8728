# Evaluates the module with a configuration, as NixOS would: the file that the
# daemon gets, its unit, and what NixOS itself would be told. A false assertion
# throws its message, as a NixOS build does.
{ configuration }:

let
  lib = import ./lib.nix;
  inherit (lib) types mkOption;

  any = default: mkOption { type = types.anything; inherit default; };
  # The parts of NixOS that the module writes to.
  nixos.options = {
    assertions = any [ ];
    environment.systemPackages = any [ ];
    networking.firewall.allowedTCPPorts = any [ ];
    users.users = any { };
    users.groups = any { };
    systemd.services = any { };
  };

  pkgs = {
    lmwarden = { type = "derivation"; outPath = "/nix/store/lmwarden"; meta.mainProgram = "lmwarden"; };
    # The text instead of a path, so that a test can read what was rendered.
    writeText = name: text: "TEXT<${text}>";
  };

  evaluated = lib.evalModules {
    modules = [ nixos (import ../module.nix) configuration ];
    specialArgs = { inherit lib pkgs; };
  };
  inherit (evaluated) config;

  broken = builtins.filter (a: !a.assertion) config.assertions;
  unit = config.systemd.services.lmwarden or null;
  rendered = builtins.match ".*--config TEXT<(.*)>" unit.serviceConfig.ExecStart;
in
if broken != [ ] then throw (builtins.concatStringsSep "\n" (map (a: a.message) broken))
else {
  file = if unit == null then null else builtins.fromJSON (builtins.head rendered);
  inherit unit;
  inherit (config.networking.firewall) allowedTCPPorts;
  users = builtins.attrNames config.users.users;
}
