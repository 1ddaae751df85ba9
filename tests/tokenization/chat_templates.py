"""Chat templates in the manner of well-known model families, written for these tests."""

CHATML = """
{%- for message in messages %}
    {{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""

LLAMA3 = """
{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = strftime_now('%d %b %Y') %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content'] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = '' %}
{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nToday Date: ' ~ date_string ~ '\\n\\n' }}
{{- system }}{{- '<|eot_id|>' }}
{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\\n\\n' }}
        {%- if message.content is mapping or message.content is iterable %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- '<|eot_id|>' }}
    {%- elif 'tool_calls' in message and message.tool_calls %}
        {%- if message.tool_calls | length != 1 %}
            {{- raise_exception('one call at a time') }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}{{- call.arguments | tojson }}{{- '}<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if tools is defined and tools %}
    {%- for tool in tools %}{{- tool | tojson(indent=4) }}{{- '\\n' }}{%- endfor %}
{%- endif %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""

MISTRAL = """
{%- set turns = namespace(user=0) %}
{{ bos_token }}{% for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('roles must alternate user/assistant/user/assistant/...') }}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {%- set turns.user = turns.user + 1 -%}
        {{ '[INST] ' + message['content'] + ' [/INST]' }}
    {%- elif message['role'] == 'assistant' -%}
        {{ ' ' + message['content'] + eos_token }}
    {%- else -%}
        {{ raise_exception('only user and assistant roles, not ' ~ message.role | upper ~ '!') }}
    {%- endif -%}
{% endfor %}
"""

GEMMA = """
{{ bos_token }}
{%- set merged = namespace(first='') -%}
{%- if messages[0].role == 'system' -%}
    {%- set merged.first = messages[0].content -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- macro turn(role, text='') -%}
<start_of_turn>{{ role }}
{{ text }}<end_of_turn>
{% endmacro -%}
{%- for message in rest -%}
    {%- set role = 'model' if message.role == 'assistant' else message.role -%}
    {%- if message.content is string -%}
        {{ turn(role, (merged.first ~ '\\n' if loop.first and merged.first else '')
                ~ message.content | trim) }}
    {%- elif message.content is iterable -%}
        {%- for part in message.content -%}
            {%- if part['type'] == 'text' %}{{ turn(role, part['text'] | trim) }}{% endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""

THINKING = """
{%- set last = namespace(index=-1) %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and not message.content.startswith('<tool_response>') %}
        {%- set last.index = messages | length - loop.index0 - 1 %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and '</think>' in content and loop.index0 < last.index %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {%- if message.role == 'assistant' %}{% generation %}{{ content }}{% endgeneration %}
    {%- else %}{{- '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}{%- endif %}
{%- endfor %}
{%- if documents is defined %}
    {{- documents | map(attribute='title') | join(', ') }}
    {{- documents | selectattr('id', 'gt', 1) | map(attribute='text') | list | length }}
{%- endif %}
{%- for key, value in (extra or {}) | dictsort %}{{ key }}={{ value | default('-', true) }};
{%- endfor %}
{%- if not enable_thinking | default(true) %}{{- '<think>\\n\\n</think>' | indent(2) }}{% endif %}
"""

PARTS = """
{%- for message in messages -%}
    [{{ message['role'] }}]
    {%- if message['content'] is string %}{{ message['content'] }}
    {%- else %}
        {%- for item in message['content'] %}({{ item['text'] | replace('a', 'A') }})
        {%- endfor %}
    {%- endif %}
{%- endfor -%}
"""

ALL = {
    "chatml": CHATML,
    "llama3": LLAMA3,
    "mistral": MISTRAL,
    "gemma": GEMMA,
    "thinking": THINKING,
    "parts": PARTS,
}
