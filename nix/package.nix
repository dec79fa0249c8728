# The lmwarden binary. The page's build and the generated code are committed, so
# that only Go is needed.
{ lib, buildGoModule }:

buildGoModule {
  pname = "lmwarden";
  version = lib.strings.removeSuffix "\n" (builtins.readFile ../VERSION);

  src = lib.cleanSource ../.;
  # nix/check.sh compares it with the modules that go.sum names.
  vendorHash = lib.strings.removeSuffix "\n" (builtins.readFile ./vendor-hash);

  subPackages = [ "cmd/lmwarden" ];
  ldflags = [
    "-s"
    "-w"
    "-X main.version=${lib.strings.removeSuffix "\n" (builtins.readFile ../VERSION)}"
    # NVML's functions are looked up when they are called: under bindnow a driver
    # that lacks one of them would end the program at its start.
    "-extldflags=-Wl,-z,lazy"
  ];
  hardeningDisable = [ "bindnow" ];

  # The whole-product tests want a browser and real processes; CI runs them.
  doCheck = false;

  meta = {
    description = "Keeps each conversation on the vLLM replica that holds its cache";
    homepage = "https://github.com/lmwarden/lmwarden";
    license = lib.licenses.asl20;
    mainProgram = "lmwarden";
    platforms = lib.platforms.linux;
  };
}
