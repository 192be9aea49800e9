"""What ``/openapi.json`` says.

The framework knows the routes but not what they read and answer, because no body passes through its models. So the
operations are described here by hand, and tests compare real requests and answers with what stands here. Each module
below describes the operations of its routes, and the schemas that only they use:

===================================================  ==============
route                                                described in
===================================================  ==============
``POST /v1/rerank``                                  reranking
``POST /v1/compare``                                 comparison
``GET /v1/experiments``                              experiments
``PUT /v1/experiments/{name}``                       experiments
``DELETE /v1/experiments/{name}``                    experiments
``POST /v1/rerank/batch``                            batches
``POST /v1/adapters/elasticsearch``                  adapters
``POST /v1/adapters/opensearch``                     adapters
``POST /v1/adapters/solr``                           adapters
``POST /v2/rerank``                                  cohere
``POST /v2/models/{name}/infer``                     inference
``POST /v2/models/{name}/versions/{version}/infer``  inference
``GET /v2``                                          protocol
``GET /v2/health/live``                              protocol
``GET /v2/health/ready``                             protocol
``GET /v2/models/stats``                             protocol
``GET /v2/models/{name}``                            protocol
``GET /v2/models/{name}/versions/{version}``         protocol
``GET /v2/models/{name}/config``                     protocol
``GET /v2/models/{name}/versions/{version}/config``  protocol
``GET /v2/models/{name}/ready``                      protocol
``GET /v2/models/{name}/versions/{version}/ready``   protocol
``GET /v2/models/{name}/stats``                      protocol
``GET /v2/models/{name}/versions/{version}/stats``   protocol
``POST /v2/repository/index``                        repository
``POST /v2/repository/models/{name}/load``           repository
``POST /v2/repository/models/{name}/unload``         repository
``GET /v1/models``                                   model_list
``GET /v1/stats``                                    statistics
``GET /v1/models/{name}``                            model
``GET /v1/models/{name}/clusters``                   model
``GET /v1/models/{name}/sample``                     model
``POST /v1/feedback``                                feedback
``POST /v1/evaluate``                                evaluation
``GET /v1/models/{name}/map``                        query_map
``GET /v1/models/{name}/versions``                   versions
``GET /v1/models/{name}/diff``                       versions
``POST /v1/models/{name}/promote``                   versions
``POST /v1/models/{name}/rollback``                  versions
``GET /livez``                                       health
``GET /startupz``                                    health
``GET /readyz``                                      health
``GET /info``                                        health
``GET /metrics``                                     health
``GET /v1/models/{name}/schema``                     request_schema
===================================================  ==============

The document is put together in ``document``. ``shapes``, ``parts``, ``explanation``, ``examples``, ``parameters`` and
``problems`` hold what several of them use.
"""

from __future__ import annotations

from localrank_service.describe.openapi.document import install
from localrank_service.describe.openapi.groups import GROUPS, OPERATIONS, SCHEMAS

__all__ = ["GROUPS", "OPERATIONS", "SCHEMAS", "install"]
