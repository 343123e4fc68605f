"""Tokens as requests-oauthlib gets them, by HTTP Basic and in the form. Run by main.ts."""

import base64
import json
import os

from oauthlib.oauth2 import BackendApplicationClient, InvalidClientError, InvalidScopeError
from requests.auth import HTTPBasicAuth
from requests_oauthlib import OAuth2Session

base = os.environ["WEIR_URL"]
client_id = os.environ["WEIR_CLIENT_ID"]
client_secret = os.environ["WEIR_CLIENT_SECRET"]
token_url = f"{base}/oauth2/token"


def session(scope=None):
    return OAuth2Session(client=BackendApplicationClient(client_id=client_id, scope=scope))


def fetch(way, secret=client_secret, scope=None, **more):
    one = session(scope)
    if way == "basic":
        token = one.fetch_token(token_url, auth=HTTPBasicAuth(client_id, secret), **more)
    else:
        token = one.fetch_token(
            token_url, client_id=client_id, client_secret=secret, include_client_id=True, **more
        )
    return one, token


def claims(token):
    part = token["access_token"].split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def refused(kind, **given):
    try:
        fetch(**given)
    except kind:
        return
    raise AssertionError(f"{given} was not refused with {kind.__name__}")


for way in ("basic", "form"):
    one, token = fetch(way)
    assert token["token_type"] == "Bearer" and token["expires_in"] == 3600, token
    answer = one.post(f"{base}/graphql", json={"query": "{ dataPools { nodes { id } } }"})
    assert answer.status_code == 200 and "errors" not in answer.json(), answer.text
    _, token = fetch(way, scope=["metric:query"], policy_values='{"tenant_id":"123"}')
    assert claims(token)["scope"] == "metric:query", token
    assert claims(token)["policy_values"] == {"tenant_id": "123"}, token
    refused(InvalidClientError, way=way, secret=client_secret + "x")
    refused(InvalidScopeError, way=way, scope=["root"])
    print(f"{way}: token, query, scope, policy values, refusals")
