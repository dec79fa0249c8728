/** Addresses of the pages. */

/** Page of a model. Names may hold slashes, which are escaped. */
export function modelPath(name: string): string {
  return `/models/${encodeURIComponent(name)}`;
}

/** Page of a conversation, found by its model. */
export function conversationPath(model: string, id: string): string {
  return `/conversations?${new URLSearchParams({ model, id })}`;
}

/** Page of a request's decision record. */
export function requestPath(id: string): string {
  return `/requests/${encodeURIComponent(id)}`;
}

/** List of requests, narrowed by what is given. */
export function requestsPath(filter: { model?: string; conversation?: string }): string {
  const query = new URLSearchParams(filter as Record<string, string>);
  return `/requests${query.size > 0 ? `?${query}` : ""}`;
}

/** Page of the keys, with the limits of one open. */
export function keyPath(name: string): string {
  return `/keys?${new URLSearchParams({ key: name })}`;
}

/** Page of one replica, with its log. */
export function replicaPath(model: string, index: number): string {
  return `${modelPath(model)}/replicas/${index}`;
}
