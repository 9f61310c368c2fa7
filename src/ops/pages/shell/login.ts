// The form that asks for the token. The token travels in the body, because addresses end up in histories and logs.
import { html, type Html } from './html.ts';
import { hidden } from './parts.ts';

export function loginForm(to: string, fault: string | undefined): Html {
  return html`<form class="login" method="post" action="/login">
    ${hidden('to', to)} ${fault === undefined ? null : html`<p class="fault" role="alert">${fault}</p>`}
    <label for="token">Token</label>
    <input id="token" name="token" type="password" required autocomplete="current-password" autofocus />
    <p class="soft">
      <code>OPS_READ_TOKEN</code> may look, <code>OPS_TOKEN</code> may change things. Both are set in <code>.env</code>.
    </p>
    <button>Log in</button>
  </form>`;
}
