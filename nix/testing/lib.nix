# As much of nixpkgs' lib as nix/module.nix uses, so that the module can be
# evaluated where nixpkgs is not to be had. It follows the semantics of the real
# one for what it has, and has nothing else: a use of something new fails loudly.
rec {
  inherit (builtins) attrNames attrValues concatStringsSep elem filter head isAttrs isList length map mapAttrs;

  id = x: x;
  last = list: builtins.elemAt list (builtins.length list - 1);
  all = builtins.all;
  any = builtins.any;
  toInt = s: builtins.fromJSON s;
  hasPrefix = prefix: s: builtins.substring 0 (builtins.stringLength prefix) s == prefix;
  splitString = sep: s: builtins.filter builtins.isString (builtins.split (escape sep) s);
  escape = s: builtins.replaceStrings [ "." "*" "[" ] [ "\\." "\\*" "\\[" ] s;
  filterAttrs = keep: set:
    builtins.listToAttrs (builtins.concatMap (name: if keep name set.${name} then [{ inherit name; value = set.${name}; }] else [ ]) (builtins.attrNames set));
  mapAttrsToList = f: set: map (name: f name set.${name}) (builtins.attrNames set);
  getExe = package: "${package}/bin/${package.meta.mainProgram}";
  cleanSource = path: path;
  strings.removeSuffix = suffix: s:
    let n = builtins.stringLength s - builtins.stringLength suffix; in
    if n >= 0 && builtins.substring n (builtins.stringLength suffix) s == suffix then builtins.substring 0 n s else s;

  # ---- options and properties --------------------------------------------------

  mkOption = attrs: { _type = "option"; } // attrs;
  mkIf = condition: content: { _type = "if"; inherit condition content; };
  mkMerge = contents: { _type = "merge"; inherit contents; };
  mkOverride = priority: content: { _type = "override"; inherit priority content; };
  mkDefault = mkOverride 1000;
  mkForce = mkOverride 50;

  isType = kind: value: builtins.isAttrs value && (value._type or null) == kind;
  showLoc = loc: builtins.concatStringsSep "." loc;

  # The values of a definition with its properties resolved: [{ priority, value }].
  discharge = definition:
    if isType "if" definition then (if definition.condition then discharge definition.content else [ ])
    else if isType "merge" definition then builtins.concatMap discharge definition.contents
    else if isType "override" definition then map (d: d // { inherit (definition) priority; }) (discharge definition.content)
    else [{ priority = 100; value = definition; }];

  # Properties are pushed inwards, so that the condition of an mkIf around a set may
  # depend on the configuration that it defines.
  push = definition:
    if isType "if" definition then map (set: builtins.mapAttrs (_: mkIf definition.condition) set) (push definition.content)
    else if isType "merge" definition then builtins.concatMap push definition.contents
    else if isType "override" definition then map (set: builtins.mapAttrs (_: mkOverride definition.priority) set) (push definition.content)
    else [ definition ];

  # The definitions of the least priority number win.
  strongest = definitions:
    let least = builtins.foldl' (a: d: if d.priority < a then d.priority else a) 9999 definitions; in
    map (d: d.value) (builtins.filter (d: d.priority == least) definitions);

  # ---- types -------------------------------------------------------------------

  one = loc: values:
    if builtins.all (v: v == builtins.head values) values then builtins.head values
    else throw "The option `${showLoc loc}' has conflicting definition values.";
  simple = name: check: { inherit name check; merge = one; };

  types = rec {
    bool = simple "boolean" builtins.isBool;
    str = simple "string" builtins.isString;
    path = simple "path" (v: builtins.isPath v || (builtins.isString v && hasPrefix "/" v));
    package = simple "package" (v: builtins.isAttrs v && (v.type or null) == "derivation");
    number = simple "number" (v: builtins.isInt v || builtins.isFloat v);
    anything = { name = "anything"; check = _: true; merge = loc: values: if builtins.all builtins.isList values then builtins.concatLists values else if builtins.all builtins.isAttrs values then builtins.foldl' (a: b: a // b) { } values else one loc values; };
    enum = values: simple "one of ${builtins.toJSON values}" (v: builtins.elem v values);
    strMatching = pattern: simple "string matching ${pattern}" (v: builtins.isString v && builtins.match pattern v != null);
    ints.between = low: high: simple "integer between ${toString low} and ${toString high}" (v: builtins.isInt v && v >= low && v <= high);
    ints.unsigned = simple "unsigned integer" (v: builtins.isInt v && v >= 0);
    numbers.between = low: high: simple "number between ${toString low} and ${toString high}" (v: number.check v && v >= low && v <= high);
    nullOr = type: {
      name = "null or ${type.name}";
      check = v: v == null || type.check v;
      merge = loc: values: if builtins.all (v: v == null) values then null else type.merge loc (builtins.filter (v: v != null) values);
    };
    listOf = type: {
      name = "list of ${type.name}";
      check = v: builtins.isList v && builtins.all type.check v;
      merge = loc: values: builtins.concatLists values;
    };
    attrsOf = type: {
      name = "attribute set of ${type.name}";
      check = builtins.isAttrs;
      merge = loc: values:
        let
          sets = builtins.concatMap push values;
          names = builtins.attrNames (builtins.foldl' (a: b: a // b) { } sets);
        in
        builtins.listToAttrs (map
          (name: {
            inherit name;
            value = evalOption (loc ++ [ name ]) (mkOption { inherit type; }) (builtins.concatMap (set: if set ? ${name} then [ set.${name} ] else [ ]) sets);
          })
          names);
    };
    submodule = module: {
      name = "submodule";
      check = builtins.isAttrs;
      merge = loc: values: evalTree loc module.options (builtins.concatMap push values);
    };
  };

  # ---- evaluation --------------------------------------------------------------

  evalOption = loc: option: definitions:
    let
      values = strongest (builtins.concatMap discharge definitions);
      bad = builtins.filter (v: !(option.type.check v)) values;
    in
    if values == [ ] then
      (if option ? default then
      # A default passes through the type: a submodule fills in its own defaults.
        (if option.type.check option.default then option.type.merge loc [ option.default ] else option.default)
      else throw "The option `${showLoc loc}' was accessed but has no value defined. Try setting the option.")
    else if bad != [ ] then
      throw "A definition for option `${showLoc loc}' is not of type `${option.type.name}': ${builtins.toJSON (builtins.head bad)}"
    else option.type.merge loc values;

  evalTree = loc: options: definitions:
    let
      unknown = builtins.concatMap (d: builtins.filter (name: !(options ? ${name})) (builtins.attrNames d)) definitions;
      sub = name: builtins.concatMap (d: if d ? ${name} then [ d.${name} ] else [ ]) definitions;
    in
    if unknown != [ ] then throw "The option `${showLoc (loc ++ [ (builtins.head unknown) ])}' does not exist."
    else
      builtins.mapAttrs
        (name: option:
          if isType "option" option then evalOption (loc ++ [ name ]) option (sub name)
          else evalTree (loc ++ [ name ]) option (builtins.concatMap push (sub name)))
        options;

  mergeOptions = a: b:
    a // builtins.mapAttrs
      (name: option:
        if !(a ? ${name}) then option
        else if isType "option" option then throw "The option `${name}' is declared twice."
        else mergeOptions a.${name} option)
      b;

  # Evaluates modules to { config, options }.
  evalModules = { modules, specialArgs ? { } }:
    let
      load = module: if builtins.isFunction module then module ({ inherit config; } // specialArgs) else module;
      loaded = map load modules;
      options = builtins.foldl' mergeOptions { } (map (m: m.options or { }) loaded);
      # A module that states neither options nor config is all config.
      definition = m: if m ? options || m ? config then m.config or { } else m;
      config = evalTree [ ] options (builtins.concatMap (m: push (definition m)) loaded);
    in
    { inherit config options; };
}
