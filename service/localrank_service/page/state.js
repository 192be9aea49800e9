// What the views share: the model that is chosen, and the query that was tried last.

/** A model is the answer of /v1/models/{name}; a trial is { request, answer, rows }. */
export const state = Object.assign(new EventTarget(), {
  model: null,
  // The reading of the models that is under way, or the last one.
  reading: null,
  trial: null,
  set(name, value) {
    this[name] = value;
    this.dispatchEvent(new Event(name));
  },
});

/** Clusters have the same colour in every view; there are eight, and every mark also bears its cluster's number. */
export function colour(cluster) {
  return cluster === null || cluster === undefined ? "var(--muted)" : `var(--cluster-${cluster % 8})`;
}

/** Name a cluster as people would. */
export function clusterName(cluster) {
  return cluster === null || cluster === undefined || cluster === "global" ? "global scorer" : `cluster ${cluster}`;
}
