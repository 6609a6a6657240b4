#!/bin/sh
# A tool in shell, as a CGI script of any web server, for example that of busybox:
#
#   mkdir -p www/cgi-bin && cp disk.sh www/cgi-bin/disk && chmod +x www/cgi-bin/disk
#   busybox httpd -f -p 127.0.0.1:8000 -h www
#   tool-worker --http-tool disk_free=http://127.0.0.1:8000/cgi-bin/disk
case $REQUEST_METHOD in
GET)
  printf 'Content-Type: application/json\n\n'
  printf '{"description": "Shows how much room the disks of the machine have.", "effects": "read_only", "timeout": "10s"}\n'
  ;;
*)
  printf 'Content-Type: text/plain\n\n'
  df -P
  ;;
esac
