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

{{/* The pod that gives the worker its connectors: PUT of an unchanged configuration changes nothing. */}}
{{- define "tidings.registerPod" -}}
{{ include "tidings.pod" . }}
restartPolicy: Never
containers:
  - name: register
    image: {{ include "tidings.image" (dict "root" . "image" .Values.capture.image) }}
    imagePullPolicy: {{ .Values.imagePullPolicy }}
    command: [python, /etc/tidings/register_connector.py]
    args: [{{ printf "http://%s-capture:8083" (include "tidings.fullname" .) | quote }}, /etc/tidings]
    env:
      - {name: TIDINGS_REGISTER_SECONDS, value: {{ .Values.capture.register.deadlineSeconds | quote }}}
    resources:
      requests: {cpu: 50m, memory: 64Mi}
      limits: {memory: 128Mi}
    securityContext: {{- include "tidings.containerSecurity" . | nindent 6 }}
    volumeMounts:
      - {name: connectors, mountPath: /etc/tidings, readOnly: true}
volumes:
  - name: connectors
    configMap: {name: {{ include "tidings.fullname" . }}-connectors}
{{- include "tidings.scheduling" .Values.capture }}
{{- end -}}
