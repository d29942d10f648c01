# SPDX-License-Identifier: BSD-3-Clause
"""The JSON of rdinit against docs/schema/VERB.json: the part of JSON Schema that those files use."""

import json
import os
import re

from t_loop import SOURCE_ROOT, Failure

TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int, 'number': (int, float), 'null': type(None)}


def is_of(value, kind):
    return isinstance(value, TYPES[kind]) and not (kind in ('integer', 'number') and isinstance(value, bool))


def schema_of(verb):
    with open(os.path.join(SOURCE_ROOT, 'docs/schema', f'{verb}.json'), encoding='utf-8') as f:
        return json.load(f)


def errors(schema, value, where='value'):
    unknown = set(schema) - {'$schema', 'title', 'description', 'type', 'properties', 'required', 'minimum',
                             'additionalProperties', 'patternProperties', 'items'}
    if unknown:
        raise Failure(f'{where}: the schema uses {sorted(unknown)}, which is not checked here')
    kind = schema.get('type')
    if kind and not any(is_of(value, k) for k in (kind if isinstance(kind, list) else [kind])):
        yield f'{where}: {value!r} is not of type {kind}'
        return
    if 'minimum' in schema and value is not None and value < schema['minimum']:
        yield f'{where}: {value} is less than {schema["minimum"]}'
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from errors(schema.get('items', {}), item, f'{where}[{i}]')
    if not isinstance(value, dict):
        return
    for key in schema.get('required', ()):
        if key not in value:
            yield f'{where}: no "{key}"'
    for key, item in value.items():
        part = schema.get('properties', {}).get(key)
        for pattern, other in schema.get('patternProperties', {}).items():
            if part is None and re.search(pattern, key):
                part = other
        if part is None and schema.get('additionalProperties') is False:
            yield f'{where}: "{key}" is not in the schema'
        yield from errors(part or {}, item, f'{where}.{key}')


def check(verb, value):
    """Raises an error for JSON of a verb that does not fit; uses python3-jsonschema as well, if it is installed."""
    schema = schema_of(verb)
    found = list(errors(schema, value))
    if found:
        raise Failure(f'docs/schema/{verb}.json: ' + '\n'.join(found[:10]))
    try:
        import jsonschema
    except ImportError:
        return
    try:
        jsonschema.validate(value, schema)
    except jsonschema.ValidationError as e:
        raise Failure(f'docs/schema/{verb}.json: {e.message}') from e
