/**
 * The only module that knows how calls travel. Everything else asks for `api()` and
 * gets typed clients; tests and the dev fixture put another transport in with
 * `useTransport`.
 */
import {
  type Client,
  Code,
  ConnectError,
  createClient,
  type Interceptor,
  type Transport,
} from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { GpuService } from "../gen/lmwarden/v1/gpu_service_pb";
import { KeyService } from "../gen/lmwarden/v1/key_service_pb";
import { ModelService } from "../gen/lmwarden/v1/model_service_pb";
import { ReplicaService } from "../gen/lmwarden/v1/replica_service_pb";
import { RoutingService } from "../gen/lmwarden/v1/routing_service_pb";
import { StatsService } from "../gen/lmwarden/v1/stats_service_pb";
import { SystemService } from "../gen/lmwarden/v1/system_service_pb";
import { token, tokenWanted } from "./token";

/** The clients of the API's services. */
export interface Api {
  models: Client<typeof ModelService>;
  replicas: Client<typeof ReplicaService>;
  routing: Client<typeof RoutingService>;
  stats: Client<typeof StatsService>;
  gpus: Client<typeof GpuService>;
  keys: Client<typeof KeyService>;
  system: Client<typeof SystemService>;
}

/**
 * Sends the token along and notices when one is wanted. A stream that is refused
 * fails while it is read, not here; `noteRefusal` covers that.
 */
export const withToken: Interceptor = (next) => async (request) => {
  const value = token();
  if (value !== "") request.header.set("Authorization", `Bearer ${value}`);
  try {
    return await next(request);
  } catch (error) {
    noteRefusal(error);
    throw error;
  }
};

/** Opens the sign-in panel when an error says that a token is wanted. */
export function noteRefusal(error: unknown): void {
  if (ConnectError.from(error).code === Code.Unauthenticated) tokenWanted.value = true;
}

function clients(transport: Transport): Api {
  return {
    models: createClient(ModelService, transport),
    replicas: createClient(ReplicaService, transport),
    routing: createClient(RoutingService, transport),
    stats: createClient(StatsService, transport),
    gpus: createClient(GpuService, transport),
    keys: createClient(KeyService, transport),
    system: createClient(SystemService, transport),
  };
}

let current: Api | undefined;

/** Returns the clients; by default they call the address that served the page. */
export function api(): Api {
  current ??= clients(
    createConnectTransport({
      baseUrl: location.origin,
      useHttpGet: true,
      interceptors: [withToken],
    }),
  );
  return current;
}

/** Puts another transport in the place of the network. */
export function useTransport(transport: Transport): void {
  current = clients(transport);
}
