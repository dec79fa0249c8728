// Package wire knows the shapes of the OpenAI and Anthropic APIs, and nothing of
// policy, servers or clocks. Every function is pure; nothing here blocks.
//
// A request, in the order of its life:
//
//   - [APIOf] names the surface by method and path.
//   - [Scan.Scan] reads the top level of the body once: model, stream, the fields
//     that name a conversation, and where the prompt lies.
//   - [Identify] tells which conversation it belongs to from headers and body, and
//     from which [Source]; [Hash] scopes that to tenant and model.
//   - [BuildChain] does the same for clients that send no id, by one hash per
//     message; [SharedHash] names what conversations share.
//   - [Rewrite] edits the body before it goes upstream: the model's served name and
//     stream_options.include_usage, and not one other byte.
//
// The answer:
//
//   - [Stream] takes the bytes of an SSE answer as they come, gives back those for
//     the client, and keeps the [Usage], the first token, the end and errors that
//     it saw. It never changes a byte that it was not asked to change.
//   - [ReadUsage] and [RestoreModel] do the same for whole bodies.
//   - [Answer] collects an answer for the chain hash after it.
//   - [ErrorBody], [ErrorFrame] and [Ping] speak to the client in the surface's own
//     shape.
package wire
