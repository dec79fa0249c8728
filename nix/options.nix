# Generated from the API's definition by make generate. Do not edit.
{ lib }:

let
  inherit (lib) mkOption types;
in
{
  config = {
    inference_listen = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Address of the OpenAI and Anthropic endpoints. When not set: 127.0.0.1:8000.";
    };
    admin_listen = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Address of the admin API and the page. When not set: 127.0.0.1:8001.";
    };
    data_dir = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Directory of the database, the engines' logs and run files. When not set: the user's state directory.";
    };
    max_body_bytes = mkOption {
      type = types.nullOr (types.ints.between 1024 4294967296);
      default = null;
      description = "A larger body is answered 413. When not set: 64 MiB.";
    };
    default_model = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Model that serves requests that name no known model; empty refuses them. When not set: none.";
    };
    insecure = mkOption {
      type = types.nullOr types.bool;
      default = null;
      description = "Serve on other than loopback addresses without keys; everyone on the network may use and stop models. When not set: off.";
    };
    log_level = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Level of the daemon's own log: debug, info, warn or error. When not set: info.";
    };
    session_header = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Header that names a conversation and wins over every other source. When not set: x-lmwarden-session-id.";
    };
    engine = {
      command = mkOption {
        type = types.nullOr (types.listOf types.str);
        default = null;
        description = "Command that is run with serve MODEL and vLLM's flags. When not set: vllm.";
      };
      pass_env = mkOption {
        type = types.nullOr (types.listOf types.str);
        default = null;
        description = "Names of the daemon's variables that engines see, beside PATH, HOME, LANG, USER and TMPDIR. When not set: none.";
      };
      port_base = mkOption {
        type = types.nullOr (types.ints.between 1024 60000);
        default = null;
        description = "Engines listen on the loopback address from this port on; taken ports are skipped. When not set: 18100.";
      };
      drain_timeout = mkOption {
        type = types.nullOr (types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+");
        default = null;
        description = "Time that a stopping replica gets to finish its requests before they are cut. When not set: 30 s.";
      };
      on_exit = mkOption {
        type = types.nullOr (types.enum [ "stop" "ENGINES_ON_EXIT_STOP" ]);
        default = null;
        description = "Whether engines are stopped when the daemon ends. When not set: stop.";
      };
      stall_timeout = mkOption {
        type = types.nullOr (types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+");
        default = null;
        description = "A start without a new log line for so long is reported as stalled. When not set: 10 min.";
      };
      device = mkOption {
        type = types.nullOr (types.enum [ "cards" "cpu" "ENGINE_DEVICE_CARDS" "ENGINE_DEVICE_CPU" ]);
        default = null;
        description = "CPU starts engines without asking for cards, for vLLM's CPU build. When not set: cards.";
      };
    };
    inference_auth = {
      keys_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File with one API key a line that the inference endpoint accepts. When not set: no key is asked for.";
      };
    };
    admin_auth = {
      token_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File that holds the token of the admin API. When not set: admin-token in the data directory.";
      };
    };
    inference_tls = {
      cert_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File with the listener's certificate and the chain behind it, in PEM; with it and key_file the listener speaks TLS and nothing else. When not set: no TLS.";
      };
      key_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File with the private key of the certificate, in PEM and without a password. When not set: no TLS.";
      };
    };
    admin_tls = {
      cert_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File with the listener's certificate and the chain behind it, in PEM; with it and key_file the listener speaks TLS and nothing else. When not set: no TLS.";
      };
      key_file = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "File with the private key of the certificate, in PEM and without a password. When not set: no TLS.";
      };
    };
  };
  modelSpec = {
    source = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "Hugging Face repository or local path of the model, as vllm serve takes it.";
    };
    aliases = mkOption {
      type = types.nullOr (types.listOf types.str);
      default = null;
      description = "Other names that clients may send; a star at the end matches any ending, as in claude-*. When not set: none.";
    };
    replica_mode = mkOption {
      type = types.nullOr (types.enum [ "independent" "vllm data parallel" "remote" "REPLICA_MODE_INDEPENDENT" "REPLICA_MODE_VLLM_DATA_PARALLEL" "REPLICA_MODE_REMOTE" ]);
      default = null;
      description = "Independent runs one engine process per replica, which is what vLLM recommends for dense models. When not set: independent.";
    };
    replicas = mkOption {
      type = types.nullOr (types.ints.between 0 64);
      default = null;
      description = "Full copies of the model, each with a cache of its own; 0 means as many as the cards allow. When not set: as many as fit.";
    };
    tensor_parallel_size = mkOption {
      type = types.nullOr (types.ints.between 0 16);
      default = null;
      description = "Cards over which one replica is split (tensor parallel size); 0 means 1. When not set: 1.";
    };
    gpus = mkOption {
      type = types.nullOr (types.listOf types.str);
      default = null;
      description = "UUIDs of the cards to use, in order; empty lets the box choose free ones. When not set: the box chooses.";
    };
    max_model_len = mkOption {
      type = types.nullOr (types.ints.between 16 16777216);
      default = null;
      description = "Most tokens of prompt and answer together (max_model_len). When not set: the model's own.";
    };
    max_num_seqs = mkOption {
      type = types.nullOr (types.ints.between 1 4096);
      default = null;
      description = "Most requests that one replica computes at the same time (max_num_seqs); the spill threshold follows it. When not set: the engine's default.";
    };
    max_num_batched_tokens = mkOption {
      type = types.nullOr (types.ints.between 16 1048576);
      default = null;
      description = "Most tokens that one step computes (max_num_batched_tokens). When not set: the engine's default.";
    };
    gpu_memory_utilization = mkOption {
      type = types.nullOr (types.numbers.between 0.05 1);
      default = null;
      description = "Share of a card's memory that the engine takes (gpu_memory_utilization). When not set: the engine's default.";
    };
    kv_cache_type = mkOption {
      type = types.nullOr (types.enum [ "auto" "fp8" "bf16" "KV_CACHE_TYPE_AUTO" "KV_CACHE_TYPE_FP8" "KV_CACHE_TYPE_BF16" ]);
      default = null;
      description = "fp8 holds twice the tokens of bf16 in the same memory. When not set: auto.";
    };
    tool_call_parser = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "How the engine reads tool calls (hermes for Qwen3); coding agents need one. When not set: none.";
    };
    reasoning_parser = mkOption {
      type = types.nullOr types.str;
      default = null;
      description = "How the engine reads reasoning text (qwen3 for Qwen3's thinking models). When not set: none.";
    };
    extra_args = mkOption {
      type = types.nullOr (types.listOf types.str);
      default = null;
      description = "Arguments of vllm serve that have no field here, one per line; ours for host, port and name cannot be replaced. When not set: none.";
    };
    env = mkOption {
      type = types.nullOr (types.attrsOf types.str);
      default = null;
      description = "Variables for the engine process, as NAME=value; those that choose cards and ports are the product's own. When not set: none.";
    };
    remote_urls = mkOption {
      type = types.nullOr (types.listOf types.str);
      default = null;
      description = "Base URLs of engines that somebody else runs, one replica each. When not set: none.";
    };
    max_concurrent_requests = mkOption {
      type = types.nullOr (types.ints.between 1 1048576);
      default = null;
      description = "Requests for the model that may be open at once, with those that wait at the door; the next one is answered 429. When not set: any.";
    };
    max_requests_per_minute = mkOption {
      type = types.nullOr (types.ints.between 1 100000000);
      default = null;
      description = "Requests for the model in a minute; as many may come at once after a quiet minute, and the next one is answered 429 with the seconds to wait. When not set: any.";
    };
    max_tokens_per_minute = mkOption {
      type = types.nullOr (types.ints.between 1 2000000000);
      default = null;
      description = "Tokens that the engines compute in a minute: of a prompt what was not cached, and the answer; they are charged when the answer ends. When not set: any.";
    };
    max_body_bytes = mkOption {
      type = types.nullOr (types.ints.between 1024 4294967296);
      default = null;
      description = "A larger body for the model is answered 413; the daemon's own max_body_bytes holds as well. When not set: the daemon's.";
    };
    max_answer_tokens = mkOption {
      type = types.nullOr (types.ints.between 1 16777216);
      default = null;
      description = "Most tokens of an answer (max_tokens); a request that asks for more is served with this bound, and its answer ends with the reason length. When not set: any.";
    };
  };
  routingSettings = {
    affinity = mkOption {
      type = types.nullOr types.bool;
      default = null;
      description = "Keep each conversation on the replica that holds its cache; off balances every request by least in flight. When not set: on.";
    };
    spill_threshold = mkOption {
      type = types.nullOr (types.ints.between 1 4096);
      default = null;
      description = "A request leaves its home replica when that has so many requests in flight; empty means auto, a quarter of max_num_seqs. Does not count while admission keeps places, as by default: set admission to none. When not set: auto.";
    };
    spill = mkOption {
      type = types.nullOr (types.enum [ "count" "priced" "SPILL_RULE_COUNT" "SPILL_RULE_PRICED" ]);
      default = null;
      description = "Count spills at the threshold alone; priced also weighs the wait at home against reading this context again elsewhere. Does not count while admission keeps places, as by default: set admission to none. When not set: count.";
    };
    admission = mkOption {
      type = types.nullOr (types.enum [ "none" "working set" "ADMISSION_NONE" "ADMISSION_WORKING_SET" ]);
      default = null;
      description = "Working set lets in only as many conversations as the caches can hold and keeps the others in order at the door. When not set: working set.";
    };
    policy = mkOption {
      type = types.nullOr (types.enum [ "least loaded" "hash" "round robin" "random" "PLACEMENT_POLICY_LEAST_LOADED" "PLACEMENT_POLICY_HASH" "PLACEMENT_POLICY_ROUND_ROBIN" "PLACEMENT_POLICY_RANDOM" ]);
      default = null;
      description = "How a new conversation gets its replica; least loaded is the rule, the others exist for comparison. When not set: least loaded.";
    };
    client_pinning = mkOption {
      type = types.nullOr types.bool;
      default = null;
      description = "Obey a client that names its replica with the header X-data-parallel-rank. When not set: on.";
    };
    conversation_idle = mkOption {
      type = types.nullOr (types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+");
      default = null;
      description = "A conversation without a turn for so long is forgotten; its next turn is placed anew. When not set: 4 h.";
    };
    subagent_idle = mkOption {
      type = types.nullOr (types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+");
      default = null;
      description = "A subagent's conversation without a turn for so long is forgotten. When not set: 10 min.";
    };
    max_conversations = mkOption {
      type = types.nullOr (types.ints.between 64 1048576);
      default = null;
      description = "Most conversations that the table of homes holds; the longest idle one leaves first, live ones never do. When not set: 65,536.";
    };
    max_hold = mkOption {
      type = types.nullOr (types.strMatching "([0-9]+([.][0-9]+)? *(ms|s|m|min|h|d) *)+");
      default = null;
      description = "A request that waited so long at the door is forwarded anyway. When not set: 300 s.";
    };
    max_queue = mkOption {
      type = types.nullOr (types.ints.between 1 1048576);
      default = null;
      description = "So many requests may wait at the door; the next one is answered 503 with a time to come back. When not set: 1,024.";
    };
    strip_attribution = mkOption {
      type = types.nullOr types.bool;
      default = null;
      description = "Take the attribution block of Claude Code out of its requests, for engines older than vLLM 0.18, whose prefix cache it breaks at every turn. When not set: off.";
    };
    session_headers = mkOption {
      type = types.nullOr (types.listOf types.str);
      default = null;
      description = "Headers of other routers that name a conversation too, such as x-dynamo-session-id or x-smg-routing-key; read after the session header and before all others. When not set: none.";
    };
    identity_sources = mkOption {
      type = types.nullOr (types.listOf (types.enum [ "user" "safety_identifier" "metadata.user_id" "x-user-id" "x-correlation-id" "client-ip" ]));
      default = null;
      description = "What may name a conversation when nothing else does: user, safety_identifier, metadata.user_id (body), x-user-id, x-correlation-id (headers), client-ip. Off, because one value often stands for all conversations of a person. When not set: none.";
    };
  };
  keyLimits = {
    max_concurrent_requests = mkOption {
      type = types.nullOr (types.ints.between 1 1048576);
      default = null;
      description = "Requests of the key that may be open at once, with those that wait at the door; the next one is answered 429. When not set: as for *, else any.";
    };
    max_requests_per_minute = mkOption {
      type = types.nullOr (types.ints.between 1 100000000);
      default = null;
      description = "Requests of the key in a minute; as many may come at once after a quiet minute, and the next one is answered 429 with the seconds to wait. When not set: as for *, else any.";
    };
    max_tokens_per_minute = mkOption {
      type = types.nullOr (types.ints.between 1 2000000000);
      default = null;
      description = "Tokens that engines compute for the key in a minute: of a prompt what was not cached, and the answer; they are charged when the answer ends. When not set: as for *, else any.";
    };
    max_body_bytes = mkOption {
      type = types.nullOr (types.ints.between 1024 4294967296);
      default = null;
      description = "A larger body of the key is answered 413; the daemon's own max_body_bytes holds as well. When not set: as for *, else the daemon's.";
    };
    max_answer_tokens = mkOption {
      type = types.nullOr (types.ints.between 1 16777216);
      default = null;
      description = "Most tokens of an answer to the key (max_tokens); a request that asks for more is served with this bound, and its answer ends with the reason length. When not set: as for *, else any.";
    };
  };
}
