import { createRouterTransport, type Transport } from "@connectrpc/connect";
export function fakeTransport(_: URLSearchParams): Transport {
  return createRouterTransport(() => {});
}
