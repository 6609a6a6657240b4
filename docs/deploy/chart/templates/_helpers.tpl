{{- define "turnlog.labels" -}}
app.kubernetes.io/name: turnlog
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "turnlog.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "turnlog.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "turnlog.servers" -}}
{{- $name := .Release.Name -}}
{{- if .Values.nats.enabled -}}
nats://{{ $name }}-nats-0.{{ $name }}-nats:4222,nats://{{ $name }}-nats-1.{{ $name }}-nats:4222,nats://{{ $name }}-nats-2.{{ $name }}-nats:4222
{{- else -}}
{{- required "nats.url is missing" .Values.nats.url -}}
{{- end -}}
{{- end -}}

{{/* How a program connects as a user. */}}
{{- define "turnlog.env" -}}
- {name: NATS_URL, value: {{ include "turnlog.servers" .root | quote }}}
- {name: NATS_USER, value: {{ .user | quote }}}
- name: NATS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .root.Values.secrets.passwords }}, key: TURNLOG_{{ .user | upper | replace "-" "_" }}_PASSWORD}}
{{- end -}}

{{- define "turnlog.probes" -}}
# A program answers once it has a connection to NATS.
startupProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 5, failureThreshold: 60}
livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 10, failureThreshold: 6}
readinessProbe: {httpGet: {path: /readyz, port: http}, periodSeconds: 5}
{{- end -}}

{{- define "turnlog.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  labels: {{- include "turnlog.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "turnlog.labels" . | nindent 6 }}
{{- end -}}
