"""The online half of LocalRank: rerank requests over HTTP."""
