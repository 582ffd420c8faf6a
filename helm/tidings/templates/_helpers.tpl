{{- define "tidings.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidings.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "tidings.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "tidings.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Call the ones below with (dict "root" $ "component" "capture"). */}}
{{- define "tidings.selector" -}}
app.kubernetes.io/name: {{ include "tidings.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "tidings.labels" -}}
{{ include "tidings.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "tidings.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "tidings.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* (dict "root" $ "image" .Values.capture.image) */}}
{{- define "tidings.image" -}}
{{- $name := printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- if .root.Values.imageRegistry -}}{{ .root.Values.imageRegistry }}/{{ $name }}{{- else -}}{{ $name }}{{- end -}}
{{- end -}}

{{/* What every pod of ours has in common. */}}
{{- define "tidings.pod" -}}
serviceAccountName: {{ include "tidings.serviceAccountName" . }}
automountServiceAccountToken: false
{{ include "tidings.podBase" . }}
{{- end -}}

{{- define "tidings.podBase" -}}
# The kubelet's variables for Services are named like ours (a Service tidings-http would set TIDINGS_HTTP_PORT).
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidings.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "tidings.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Environment of the services that are configured by TIDINGS_*: (dict "root" $ "port" 8091 "extra" list) */}}
{{- define "tidings.env" -}}
- {name: TIDINGS_HTTP_HOST, value: "0.0.0.0"}
- {name: TIDINGS_LOG_LEVEL, value: {{ .root.Values.log.level | quote }}}
- {name: TIDINGS_LOG_FORMAT, value: {{ .root.Values.log.format | quote }}}
{{- if .port }}
- {name: TIDINGS_HTTP_PORT, value: {{ .port | quote }}}
- {name: TIDINGS_KAFKA, value: {{ .root.Values.kafka.bootstrapServers | quote }}}
- {name: TIDINGS_REGISTRY, value: {{ .root.Values.registry.url | quote }}}
- {name: TIDINGS_SOURCE, value: {{ .root.Values.source | quote }}}
- {name: TIDINGS_REPLICATION, value: {{ .root.Values.kafka.replicationFactor | quote }}}
- {name: TIDINGS_PARTITIONS, value: {{ .root.Values.kafka.partitions | quote }}}
{{- with .root.Values.domain }}
- {name: TIDINGS_DOMAIN, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Alive: a restart would help when not. Ready: connected and consuming. The start may take its time. */}}
{{- define "tidings.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: http}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* Passwords come from Secrets that exist already, as environment variables. */}}
{{- define "tidings.secretEnv" -}}
{{- range $name, $source := .Values.capture.secretEnv }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: {name: {{ $source.secret }}, key: {{ $source.key }}}
{{- end }}
{{- end -}}

{{/* Room on the node's disk: (dict "name" "tmp" "size" "10Gi") */}}
{{- define "tidings.emptyDir" -}}
- name: {{ .name }}
  emptyDir: {sizeLimit: {{ .size }}}
{{- end -}}

{{/* Bytes that a service may write where there is room for a size such as 20Gi: four fifths, so that the service says that
it is full, and the kubelet does not evict its pod. */}}
{{- define "tidings.fourFifths" -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "ki" 1024 "Ki" 1024 "M" 1e6 "Mi" 1048576 "G" 1e9 "Gi" 1073741824 "T" 1e12 "Ti" 1099511627776 "P" 1e15 "Pi" 1125899906842624 "E" 1e18 "Ei" 1152921504606846976 -}}
{{- $number := regexFind "^[0-9.]+" . | float64 -}}
{{- mulf $number (get $units (regexReplaceAll "^[0-9.]+" . "")) 0.8 | floor | int64 -}}
{{- end -}}

{{/* Files of Secrets, at /run/tidings/<name>: certificates, key stores. */}}
{{- define "tidings.secretFiles.volumes" -}}
{{- range $name, $source := . }}
- name: files-{{ $name }}
  secret: {secretName: {{ $source.secret }}, defaultMode: 288}
{{- end }}
{{- end -}}

{{- define "tidings.secretFiles.mounts" -}}
{{- range $name, $_ := . }}
- {name: files-{{ $name }}, mountPath: /run/tidings/{{ $name }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* All files of capture's worker: those of the values, and those of its REST API. */}}
{{- define "tidings.capture.files" -}}
{{- $files := deepCopy .Values.capture.secretFiles -}}
{{- with .Values.capture.rest.tls.secret }}{{ $_ := set $files "rest-tls" (dict "secret" .) }}{{ end -}}
{{- with .Values.capture.rest.auth.secret }}{{ $_ := set $files "rest-users" (dict "secret" .) }}{{ end -}}
{{- toYaml $files -}}
{{- end -}}

{{- define "tidings.capture.group" -}}
{{- default (printf "%s-capture" (include "tidings.fullname" .)) .Values.capture.worker.groupId -}}
{{- end -}}

{{- define "tidings.capture.topics" -}}
{{- default (printf "%s.connect" (include "tidings.fullname" .)) .Values.capture.worker.topicPrefix -}}
{{- end -}}

{{- define "tidings.capture.rest" -}}
{{- printf "%s://%s-capture:8083" (ternary "https" "http" (ne .Values.capture.rest.tls.secret "")) (include "tidings.fullname" .) -}}
{{- end -}}

{{/* Whose the connectors are: the registration never touches those of others. */}}
{{- define "tidings.owner" -}}
{{- printf "%s/%s" .Release.Namespace .Release.Name -}}
{{- end -}}

{{/* The pod that makes the worker run the connectors of the values: (dict "root" $ "uninstall" false) */}}
{{- define "tidings.registerPod" -}}
{{- $root := .root -}}
{{- $capture := $root.Values.capture -}}
{{ include "tidings.pod" $root }}
restartPolicy: Never
containers:
  - name: register
    image: {{ include "tidings.image" (dict "root" $root "image" $capture.image) }}
    imagePullPolicy: {{ $root.Values.imagePullPolicy }}
    command: [python, /etc/tidings/register_connector.py]
    args: [{{ include "tidings.capture.rest" $root | quote }}, /etc/tidings]
    env:
      - {name: TIDINGS_REGISTER_OWNER, value: {{ include "tidings.owner" $root | quote }}}
      - {name: TIDINGS_REGISTER_ON_REMOVE, value: {{ $capture.register.onRemove | quote }}}
      {{- if .uninstall }}
      - {name: TIDINGS_REGISTER_UNINSTALL, value: "1"}
      - {name: TIDINGS_REGISTER_SECONDS, value: "60"}
      {{- else }}
      - {name: TIDINGS_REGISTER_SECONDS, value: {{ $capture.register.deadlineSeconds | quote }}}
      {{- end }}
      {{- if $capture.rest.tls.secret }}
      - {name: TIDINGS_REGISTER_CA, value: {{ printf "/run/tidings/rest-ca/%s" $capture.rest.tls.ca | quote }}}
      {{- end }}
      {{- if $capture.rest.tls.clientSecret }}
      - {name: TIDINGS_REGISTER_CERTIFICATE, value: {{ printf "/run/tidings/rest-client/%s" $capture.rest.tls.clientCertificate | quote }}}
      - {name: TIDINGS_REGISTER_KEY, value: {{ printf "/run/tidings/rest-client/%s" $capture.rest.tls.clientKey | quote }}}
      {{- end }}
      {{- if $capture.rest.auth.secret }}
      - {name: TIDINGS_REGISTER_USER_FILE, value: {{ printf "/run/tidings/rest-login/%s" $capture.rest.auth.username | quote }}}
      - {name: TIDINGS_REGISTER_PASSWORD_FILE, value: {{ printf "/run/tidings/rest-login/%s" $capture.rest.auth.password | quote }}}
      {{- end }}
    resources:
      requests: {cpu: 50m, memory: 64Mi}
      limits: {memory: 128Mi}
    securityContext: {{- include "tidings.containerSecurity" $root | nindent 6 }}
    volumeMounts:
      - {name: connectors, mountPath: /etc/tidings, readOnly: true}
      {{- if $capture.rest.tls.secret }}
      - {name: rest-ca, mountPath: /run/tidings/rest-ca, readOnly: true}
      {{- end }}
      {{- if $capture.rest.tls.clientSecret }}
      - {name: rest-client, mountPath: /run/tidings/rest-client, readOnly: true}
      {{- end }}
      {{- if $capture.rest.auth.secret }}
      - {name: rest-login, mountPath: /run/tidings/rest-login, readOnly: true}
      {{- end }}
volumes:
  - name: connectors
    configMap: {name: {{ include "tidings.fullname" $root }}-connectors}
  {{- with $capture.rest.tls }}
  {{- if .secret }}
  # The authority's certificate alone, not the worker's key.
  - name: rest-ca
    secret: {secretName: {{ .secret }}, items: [{key: {{ .ca }}, path: {{ .ca }}}]}
  {{- end }}
  {{- if .clientSecret }}
  - name: rest-client
    secret: {secretName: {{ .clientSecret }}, items: [{key: {{ .clientCertificate }}, path: {{ .clientCertificate }}}, {key: {{ .clientKey }}, path: {{ .clientKey }}}]}
  {{- end }}
  {{- end }}
  {{- with $capture.rest.auth }}
  {{- if .secret }}
  # One user, not the file of all.
  - name: rest-login
    secret: {secretName: {{ .secret }}, items: [{key: {{ .username }}, path: {{ .username }}}, {key: {{ .password }}, path: {{ .password }}}]}
  {{- end }}
  {{- end }}
{{- include "tidings.scheduling" $capture }}
{{- end -}}

{{/* Whether an option's name speaks of a secret: "yes" or nothing. Names that say where one is are none. */}}
{{- define "tidings.isSecretName" -}}
{{- if and (regexMatch "(?i)(password|passwd|secret|token|credential|api[._-]?key|access[._-]?key|private[._-]?key|user\\.info$|jaas\\.config$|ssl\\.key$|keystore\\.key$)" .) (not (regexMatch "(?i)([._]|^)(file|source|path|url|uri|endpoint|location|class|type|ms|seconds|enabled?)$" .)) -}}
yes
{{- end -}}
{{- end -}}
