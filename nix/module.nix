# services.lmwarden: renders the daemon's configuration and a systemd unit.
#
# The options below `settings` and `models.<name>` are generated from the API's own
# definition (nix/options.nix), so that a field of the configuration is an option
# here without a line of code.
{ config, lib, pkgs, ... }:

let
  cfg = config.services.lmwarden;
  generated = import ./options.nix { inherit lib; };

  # An option that was not set is left out of the file: the daemon's default holds.
  compact = value:
    if builtins.isAttrs value then
      lib.filterAttrs (_: v: v != null && v != { } && v != [ ]) (lib.mapAttrs (_: compact) value)
    else if builtins.isList value then
      map compact value
    else
      value;

  declared = lib.mapAttrsToList
    (name: model: { inherit name; inherit (model) spec routing stopped; })
    cfg.models;

  limited = lib.mapAttrsToList (name: limits: { inherit name limits; }) cfg.keys;

  # JSON is YAML, and needs no program to be written.
  configFile = pkgs.writeText "lmwarden.yaml"
    (builtins.toJSON (compact (cfg.settings // {
      models = declared;
      inference_auth = cfg.settings.inference_auth // { keys = limited; };
    })));

  loopback = address:
    address == null || lib.hasPrefix "127." address || lib.hasPrefix "localhost:" address || lib.hasPrefix "[::1]:" address;
  port = address: fallback:
    if address == null then fallback else lib.toInt (lib.last (lib.splitString ":" address));
in
{
  options.services.lmwarden = {
    enable = lib.mkOption {
      type = lib.types.bool;
      default = false;
      description = "Whether to run LM Warden, which owns the vLLM replicas of this machine.";
    };

    package = lib.mkOption {
      type = lib.types.package;
      default = pkgs.lmwarden or (pkgs.callPackage ./package.nix { });
      description = "The lmwarden package.";
    };

    settings = lib.mkOption {
      type = lib.types.submodule { options = generated.config; };
      default = { };
      description = "The daemon's configuration; every option that is not set keeps the daemon's default.";
    };

    models = lib.mkOption {
      type = lib.types.attrsOf (lib.types.submodule {
        options = {
          spec = lib.mkOption {
            type = lib.types.submodule { options = generated.modelSpec; };
            default = { };
            description = "What is served and how.";
          };
          routing = lib.mkOption {
            type = lib.types.submodule { options = generated.routingSettings; };
            default = { };
            description = "Routing settings.";
          };
          stopped = lib.mkOption {
            type = lib.types.bool;
            default = false;
            description = "Declare the model without starting it.";
          };
        };
      });
      default = { };
      description = "Models by the name that clients send. They are read-only through the API.";
    };

    keys = lib.mkOption {
      type = lib.types.attrsOf (lib.types.submodule { options = generated.keyLimits; });
      default = { };
      description = "Limits of API keys by the names that they have in settings.inference_auth.keys_file; \"*\" is every key, and where no key is asked for, all clients together. They are read-only through the API.";
    };

    enginePackages = lib.mkOption {
      type = lib.types.listOf lib.types.package;
      default = [ ];
      description = "Packages in the engines' PATH: vLLM, and the compiler that torch.compile asks for.";
    };

    openFirewall = lib.mkOption {
      type = lib.types.bool;
      default = false;
      description = "Open the port of the inference listener. The admin port is never opened here.";
    };
  };

  config = lib.mkIf cfg.enable {
    assertions = [
      {
        assertion = loopback cfg.settings.inference_listen
          || cfg.settings.inference_auth.keys_file != null || cfg.settings.insecure == true;
        message = "services.lmwarden: the inference address ${toString cfg.settings.inference_listen} is reachable from other machines; set settings.inference_auth.keys_file, or settings.insecure = true to serve everyone.";
      }
      {
        assertion = lib.all (model: model.spec.source != null) (builtins.attrValues cfg.models);
        message = "services.lmwarden: every model needs models.<name>.spec.source, a Hugging Face repository or a path.";
      }
    ];

    environment.systemPackages = [ cfg.package ];
    networking.firewall.allowedTCPPorts = lib.mkIf cfg.openFirewall [ (port cfg.settings.inference_listen 8000) ];

    users.users.lmwarden = {
      isSystemUser = true;
      group = "lmwarden";
      home = "/var/lib/lmwarden";
      # The cards' device files belong to these groups.
      extraGroups = [ "video" "render" ];
    };
    users.groups.lmwarden = { };

    systemd.services.lmwarden = {
      description = "LM Warden";
      documentation = [ "https://github.com/lmwarden/lmwarden" ];
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [ "network-online.target" ];
      path = cfg.enginePackages;
      environment = {
        HOME = "/var/lib/lmwarden";
        # NixOS keeps the driver's libraries off the default path.
        LD_LIBRARY_PATH = "/run/opengl-driver/lib";
      };
      serviceConfig = {
        ExecStart = "${lib.getExe cfg.package} serve --config ${configFile}";
        User = "lmwarden";
        Group = "lmwarden";
        StateDirectory = "lmwarden";
        StateDirectoryMode = "0750";
        Restart = "on-failure";
        RestartSec = 2;
        # Exit code 2 is a configuration that cannot work: starting again would not help.
        RestartPreventExitStatus = 2;
        # Draining takes as long as the longest request that is let finish.
        TimeoutStopSec = 120;
        KillMode = "mixed";
        LimitNOFILE = 1048576;
        NoNewPrivileges = true;
        ProtectSystem = "strict";
        ProtectHome = true;
        PrivateTmp = true;
        ProtectKernelTunables = true;
        ProtectControlGroups = true;
        RestrictSUIDSGID = true;
        LockPersonality = true;
      };
    };
  };
}
