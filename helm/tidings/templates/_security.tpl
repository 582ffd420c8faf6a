{{/*
How the sequencer, the translator and the lakehouse log in to Kafka and the registry. Secrets are there already; what may
change while a service runs (a password, a token, a certificate) comes as a file. All take
(dict "root" $ "component" "sequencer").
*/}}
{{- define "tidings.kafkaSecret" -}}
{{- $security := .root.Values.kafka.security -}}
{{- default $security.existingSecret (get $security.existingSecrets .component) -}}
{{- end -}}

{{- define "tidings.securityEnv" -}}
{{- $kafka := .root.Values.kafka.security }}
{{- $registry := .root.Values.registry.security }}
{{- $secret := include "tidings.kafkaSecret" . }}
{{- if $kafka.protocol }}
- {name: TIDINGS_KAFKA_SECURITY_PROTOCOL, value: {{ $kafka.protocol | quote }}}
{{- end }}
{{- with $kafka.mechanism }}
- {name: TIDINGS_KAFKA_SASL_MECHANISM, value: {{ . | quote }}}
{{- if eq . "OAUTHBEARER" }}
- name: TIDINGS_KAFKA_OAUTH_CLIENT_ID
  valueFrom:
    secretKeyRef: {name: {{ required "kafka.security.existingSecret" $secret }}, key: client-id}
- {name: TIDINGS_KAFKA_OAUTH_CLIENT_SECRET_FILE, value: /run/secrets/tidings-kafka/client-secret}
- {name: TIDINGS_KAFKA_OAUTH_TOKEN_ENDPOINT, value: {{ $kafka.tokenEndpoint | quote }}}
{{- with $kafka.scope }}
- {name: TIDINGS_KAFKA_OAUTH_SCOPE, value: {{ . | quote }}}
{{- end }}
{{- else }}
- name: TIDINGS_KAFKA_SASL_USERNAME
  valueFrom:
    secretKeyRef: {name: {{ required "kafka.security.existingSecret" $secret }}, key: username}
- {name: TIDINGS_KAFKA_SASL_PASSWORD_FILE, value: /run/secrets/tidings-kafka/password}
{{- end }}
{{- end }}
{{- if $kafka.caSecret }}
- {name: TIDINGS_KAFKA_CA_FILE, value: /run/secrets/tidings-kafka-ca/ca.crt}
{{- end }}
{{- if $kafka.clientCertificate }}
- {name: TIDINGS_KAFKA_CERTIFICATE_FILE, value: /run/secrets/tidings-kafka/tls.crt}
- {name: TIDINGS_KAFKA_KEY_FILE, value: /run/secrets/tidings-kafka/tls.key}
{{- end }}
{{- if eq $registry.login "basic" }}
- name: TIDINGS_REGISTRY_USERNAME
  valueFrom:
    secretKeyRef: {name: {{ required "registry.security.existingSecret" $registry.existingSecret }}, key: username}
- {name: TIDINGS_REGISTRY_PASSWORD_FILE, value: /run/secrets/tidings-registry/password}
{{- else if eq $registry.login "token" }}
- {name: TIDINGS_REGISTRY_TOKEN_FILE, value: /run/secrets/tidings-registry/token}
{{- end }}
{{- if $registry.caSecret }}
- {name: TIDINGS_REGISTRY_CA_FILE, value: /run/secrets/tidings-registry-ca/ca.crt}
{{- end }}
{{- if $registry.clientCertificate }}
- {name: TIDINGS_REGISTRY_CERTIFICATE_FILE, value: /run/secrets/tidings-registry/tls.crt}
- {name: TIDINGS_REGISTRY_KEY_FILE, value: /run/secrets/tidings-registry/tls.key}
{{- end }}
{{- end -}}

{{- define "tidings.securityMounts" -}}
{{- range $name, $secret := include "tidings.securitySecrets" . | fromYaml }}
- {name: {{ $name }}, mountPath: /run/secrets/tidings-{{ $name }}, readOnly: true}
{{- end }}
{{- end -}}

{{- define "tidings.securityVolumes" -}}
{{- range $name, $secret := include "tidings.securitySecrets" . | fromYaml }}
- name: {{ $name }}
  secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{/* Volume to Secret. */}}
{{- define "tidings.securitySecrets" -}}
{{- $kafka := .root.Values.kafka.security }}
{{- $registry := .root.Values.registry.security }}
{{- with include "tidings.kafkaSecret" . }}
kafka: {{ . | quote }}
{{- end }}
{{- with $kafka.caSecret }}
kafka-ca: {{ . | quote }}
{{- end }}
{{- with $registry.existingSecret }}
registry: {{ . | quote }}
{{- end }}
{{- with $registry.caSecret }}
registry-ca: {{ . | quote }}
{{- end }}
{{- end -}}
