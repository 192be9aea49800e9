// What `node` has and browsers have not.
declare const process: { argv: string[] };

import createClient from "openapi-fetch";

import type { components, paths } from "./described.js";

type Answer = components["schemas"]["RankingOrScores"];

const [url, text] = process.argv.slice(2) as [string, string];
const rows: number[][] = JSON.parse(text);
const client = createClient<paths>({ baseUrl: url });
const pairs = (answer: Answer | undefined) =>
  answer !== undefined && "results" in answer ? answer.results.map((one) => [one.id, one.score]) : [];

const byColumn = await client.POST("/v1/rerank", {
  body: { model: "demo", ids: ["d1", "d2", "d3"], features: rows, top_n: 2 },
});
const documents = rows.map((features, index) => ({ id: `d${index + 1}`, features }));
const byRow = await client.POST("/v1/rerank", { body: { model: "demo", documents, top_n: 2 } });
const refused = await client.POST("/v1/rerank", { body: { model: "demo", features: [[1.0, 2.0]] } });
const unknown = await client.GET("/v1/models/{name}", { params: { path: { name: "nothing" } } });
const both = await client.POST("/v1/rerank/batch", {
  body: { queries: [{ features: rows }, { features: [[1.0]] }] },
});
const models = await client.GET("/v1/models");
const demo = await client.GET("/v1/models/{name}", { params: { path: { name: "demo" } } });
const live = await client.GET("/livez", { parseAs: "text" });
// @ts-expect-error: a text for a number is an error of the compiler.
void (() => client.POST("/v1/rerank", { body: { top_n: "2", features: rows } }));

console.log(
  JSON.stringify({
    by_column: pairs(byColumn.data),
    by_row: pairs(byRow.data),
    cluster: byColumn.data?.route.cluster,
    refused: [refused.error?.status, refused.error?.detail],
    unknown: unknown.error?.status,
    batch: both.data?.answers.map((one) => one.status),
    models: models.data?.models.map((one) => one.name),
    features: demo.data?.features.slice(0, 2).map((one) => one.name),
    live: live.response.status,
  }),
);
