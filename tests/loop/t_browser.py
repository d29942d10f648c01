# SPDX-License-Identifier: BSD-3-Clause
"""Chromium without a screen, by chromedriver's own protocol (WebDriver: JSON over HTTP)."""

import base64
import http.client
import json
import os
import re
import socket
import subprocess

from t_loop import DEADLINE, Failure, Skip, requires_program, wait_for


class Browser:
    def __init__(self, t, width=1280, height=1200, dark=False):
        chromium, driver = requires_program('chromium'), requires_program('chromedriver')
        self.proc = t.spawn('chromedriver', [driver, '--port=0'], stdout=subprocess.PIPE,
                            env=dict(os.environ, HOME=t.dir, TMPDIR=t.dir))
        self.port = None
        for line in self.proc.popen.stdout:
            found = re.search(rb'started successfully on port (\d+)', line)
            if found:
                self.port = int(found[1])
                break
        if not self.port:
            raise Failure('chromedriver did not start')
        self.session = None
        options = {'binary': chromium, 'args': [
            '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars',
            '--no-first-run', f'--user-data-dir={t.path("chromium")}', f'--window-size={width},{height}']}
        try:
            answer = self._call('POST', '/session', {'capabilities': {'alwaysMatch': {
                'goog:chromeOptions': options, 'goog:loggingPrefs': {'browser': 'ALL'}}}})
        except Failure as e:
            raise Skip(f'Chromium does not start here: {str(e)[:120]}') from None
        self.session = answer['sessionId']
        t.cleanup(self.quit)
        self._cdp('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 500)
        if dark:
            self._cdp('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark'}])

    def _call(self, method, path, body=None):
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=DEADLINE)
        try:
            c.request(method, path, json.dumps(body) if body is not None else None,
                      {'Content-Type': 'application/json'})
            value = json.loads(c.getresponse().read())['value']
        except (OSError, socket.timeout) as e:
            raise Failure(f'chromedriver: {path}: {e}') from e
        finally:
            c.close()
        if isinstance(value, dict) and 'error' in value:
            raise Failure(f'chromedriver: {path}: {value["error"]}: {value["message"]}')
        return value

    def _cdp(self, cmd, **params):
        return self._call('POST', f'/session/{self.session}/goog/cdp/execute', {'cmd': cmd, 'params': params})

    def open(self, url):
        self._call('POST', f'/session/{self.session}/url', {'url': url})

    def run(self, script, *args):
        """The value that a script in the page returns."""
        return self._call('POST', f'/session/{self.session}/execute/sync', {'script': script, 'args': list(args)})

    def wait(self, script, what, *args):
        return wait_for(lambda: self.run(script, *args), what)

    def said(self):
        """The page's console messages: errors, refusals of the policy."""
        return [entry['message'] for entry in
                self._call('POST', f'/session/{self.session}/se/log', {'type': 'browser'})]

    def screenshot(self, path):
        with open(path, 'wb') as f:
            f.write(base64.b64decode(self._call('GET', f'/session/{self.session}/screenshot')))

    def quit(self):
        if self.session:
            try:
                self._call('DELETE', f'/session/{self.session}')
            except Failure:
                pass  # it has ended already
        self.session = None
