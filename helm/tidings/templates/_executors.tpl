{{/*
Executors of the lakehouse in pods of their own, which the job has Kubernetes make. All take the root.
*/}}

{{/* "yes" or nothing. */}}
{{- define "tidings.lakehouse.executors" -}}
{{- if and .Values.lakehouse.enabled (gt (int .Values.lakehouse.executors.instances) 0) }}yes{{ end -}}
{{- end -}}

{{/* Whose token the job has. */}}
{{- define "tidings.lakehouse.driverAccount" -}}
{{- default (printf "%s-lakehouse" (include "tidings.fullname" .)) .Values.lakehouse.executors.serviceAccount -}}
{{- end -}}

{{/* Spark's settings; those of lakehouse.sparkConf count more. */}}
{{- define "tidings.lakehouse.executorConf" -}}
{{- $executors := .Values.lakehouse.executors -}}
spark.kubernetes.namespace: {{ .Release.Namespace | quote }}
# So that the executors' pods go when this one does, however it ends.
spark.kubernetes.driver.pod.name: $(TIDINGS_POD)
spark.kubernetes.executor.container.image: {{ include "tidings.image" (dict "root" . "image" .Values.lakehouse.image) | quote }}
spark.kubernetes.container.image.pullPolicy: {{ .Values.imagePullPolicy | quote }}
spark.kubernetes.authenticate.executor.serviceAccountName: {{ include "tidings.serviceAccountName" . | quote }}
spark.kubernetes.executor.podTemplateFile: /etc/tidings/executors/pod.yaml
spark.kubernetes.executor.podTemplateContainerName: executor
# All that executors need they are told by the driver, so it needs no right to write ConfigMaps.
spark.kubernetes.executor.disableConfigMap: "true"
spark.executor.instances: {{ $executors.instances | int | quote }}
spark.executor.cores: {{ $executors.cores | int | quote }}
spark.executor.memory: {{ $executors.memory | quote }}
spark.executor.memoryOverhead: {{ $executors.memoryOverhead | quote }}
spark.driver.host: {{ include "tidings.fullname" . }}-lakehouse.{{ .Release.Namespace }}.svc
spark.driver.bindAddress: 0.0.0.0
spark.driver.port: "7078"
spark.blockManager.port: "7079"
# Kafka's and the store's logins are sent to the executors.
spark.authenticate: "true"
spark.network.crypto.enabled: "true"
{{- end -}}

{{/* The executors' pods, to which Spark adds its own: environment, ports, memory and cores. */}}
{{- define "tidings.lakehouse.executorPod" -}}
{{- $executors := .Values.lakehouse.executors -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "tidings.labels" (dict "root" . "component" "lakehouse-executor") | nindent 4 }}
  {{- with $executors.podAnnotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- include "tidings.pod" . | nindent 2 }}
  containers:
    - name: executor
      command: [tidings-lakehouse]
      securityContext: {{- include "tidings.containerSecurity" . | nindent 8 }}
      volumeMounts:
        # Spark takes volumes of such names for its own files.
        - {name: spark-local-dir-1, mountPath: /var/lib/tidings}
        - {name: tmp, mountPath: /tmp}
  volumes:
    {{- include "tidings.emptyDir" (dict "name" "spark-local-dir-1" "size" $executors.tmpSize) | nindent 4 }}
    {{- include "tidings.emptyDir" (dict "name" "tmp" "size" "1Gi") | nindent 4 }}
  {{- include "tidings.scheduling" $executors | nindent 2 }}
{{- end -}}
